// RUN: meshgen check %s --json
// REQUIRED: reject MG0204 "2 lists of axes, but there are 1 dims"
shard.grid @g(shape = 2x2)
func.func @f() -> tensor<i64> {
  %s = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %i = shard.shard_shape dims = [8] sharding = %s device = [1, 0] : index
  %a = arith.index_cast %i : index to i64
  %r = tensor.from_elements %a : tensor<i64>
  return %r : tensor<i64>
}
