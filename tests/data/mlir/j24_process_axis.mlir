// RUN: meshgen check %s --json
// REQUIRED: reject MG0202 "axis 1 is not in Mesh(0=4)"
shard.grid @g(shape = 4)
func.func @f() -> tensor<i64> {
  %i = shard.process_multi_index on @g axes = [1] : index
  %a = arith.index_cast %i : index to i64
  %r = tensor.from_elements %a : tensor<i64>
  return %r : tensor<i64>
}
