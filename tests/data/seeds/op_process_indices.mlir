// Questions of the device and the grid: the linear index, the multi-index, the grid's shape.
shard.grid @grid(shape = 2x3x2)
func.func @main() -> tensor<8xi64> {
  %idx = shard.process_linear_index on @grid : index
  %m:3 = shard.process_multi_index on @grid : index, index, index
  %n = shard.process_multi_index on @grid axes = [1] : index
  %s:2 = shard.grid_shape @grid axes = [1, 0] : index, index
  %a = arith.index_cast %idx : index to i64
  %b = arith.index_cast %m#0 : index to i64
  %c = arith.index_cast %m#1 : index to i64
  %d = arith.index_cast %m#2 : index to i64
  %e = arith.index_cast %n : index to i64
  %f = arith.index_cast %s#0 : index to i64
  %g = arith.index_cast %s#1 : index to i64
  %h = arith.constant 0 : i64
  %r = tensor.from_elements %a, %b, %c, %d, %e, %f, %g, %h : tensor<8xi64>
  return %r : tensor<8xi64>
}
