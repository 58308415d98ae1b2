// RUN: meshgen check %s --json
// REQUIRED: reject MG0104 "coordinate 2 of the device is outside axis '0' of size 2"
shard.grid @g(shape = 2x2)
func.func @f() -> tensor<i64> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %i = shard.shard_shape dims = [8] sharding = %s device = [2, 0] : index
  %a = arith.index_cast %i : index to i64
  %r = tensor.from_elements %a : tensor<i64>
  return %r : tensor<i64>
}
