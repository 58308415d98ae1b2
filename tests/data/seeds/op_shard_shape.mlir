// shard.shard_shape and shard.get_sharding by their grammar: the shapes that the text of shard.sharding gives.
shard.grid @grid0(shape = 2x2)
func.func @main(%arg0: tensor<32x32x32xf32>) -> tensor<6xi64> {
  %s = shard.sharding @grid0 split_axes = [[0], [1]] sharded_dims_offsets = [0, 24, 32, 0, 20, 32] : !shard.sharding
  %0 = shard.shard %arg0 to %s : tensor<32x32x32xf32>
  %t = shard.get_sharding %0 : tensor<32x32x32xf32> -> !shard.sharding
  %n = arith.constant 32 : index
  %c1 = arith.constant 1 : index
  %a:3 = shard.shard_shape dims = [32, 32, %n] sharding = %t device = [0, 0] : index, index, index
  %b:3 = shard.shard_shape dims = [32, 32, 32] sharding = %s device = [%c1, 1] : index, index, index
  %a0 = arith.index_cast %a#0 : index to i64
  %a1 = arith.index_cast %a#1 : index to i64
  %a2 = arith.index_cast %a#2 : index to i64
  %b0 = arith.index_cast %b#0 : index to i64
  %b1 = arith.index_cast %b#1 : index to i64
  %b2 = arith.index_cast %b#2 : index to i64
  %r = tensor.from_elements %a0, %a1, %a2, %b0, %b1, %b2 : tensor<6xi64>
  return %r : tensor<6xi64>
}
