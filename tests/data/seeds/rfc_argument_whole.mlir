// The RFC's partitioned function whose arguments are whole: every device cuts its slice.
mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
func.func @main(%arg0: tensor<8xf32>) -> tensor<4xf32> attributes { mesh_cluster = @mesh0 } {
  %idx = mesh.idx(0)
  %c4 = arith.constant 4 : i64
  %start = arith.muli %idx, %c4 : i64
  %arg0_slice = "mhlo.dynamic_slice"(%arg0, %start) {
    slice_sizes = dense<[4]> : tensor<1xi64>
  } : (tensor<8xf32>, i64) -> tensor<4xf32>
  return %arg0_slice : tensor<4xf32>
}
