// The example of shard.neighbors_linear_indices: one type and one name for both results.
shard.grid @grid(shape = 10x20x30)
func.func @main() -> tensor<2xi64> {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %idx = shard.neighbors_linear_indices on @grid[%c1, %c2, %c3] split_axes = [1] : index
  %down = arith.index_cast %idx#0 : index to i64
  %up = arith.index_cast %idx#1 : index to i64
  %r = tensor.from_elements %down, %up : tensor<2xi64>
  return %r : tensor<2xi64>
}
