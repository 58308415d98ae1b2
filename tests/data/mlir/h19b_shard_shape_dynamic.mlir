// RUN: meshgen check %s --json
// REQUIRED: none
shard.grid @g(shape = 2x2)
func.func @f(%x: tensor<2xf32>) -> tensor<2xi64> {
  %i:2 = shard.process_multi_index on @g : index, index
  %s = shard.sharding @g split_axes = [[0], [1]] sharded_dims_offsets = [0, 3, 8, 0, 4, 10] : !shard.sharding
  %n:2 = shard.shard_shape dims = [8, 10] sharding = %s device = [%i#0, %i#1] : index, index
  %a = arith.index_cast %n#0 : index to i64
  %b = arith.index_cast %n#1 : index to i64
  %r = tensor.from_elements %a, %b : tensor<2xi64>
  return %r : tensor<2xi64>
}
