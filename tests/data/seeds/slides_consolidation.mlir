// The slides: one annotation for the maker and one for the user become a gather.
mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> attributes { mesh_cluster = @mesh0 } {
  %0 = mhlo.abs %x : tensor<2x4xf32>
  %1 = mesh.annotate %0 {#mesh.shard<[[], [0, 1]]>, as_result = true} : tensor<2x4xf32> -> tensor<2x4xf32>
  %2 = mesh.annotate %1 {#mesh.shard<[[], [0]]>, as_result = false} : tensor<2x4xf32> -> tensor<2x4xf32>
  %3 = "mhlo.tanh"(%2) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  return %3 : tensor<2x4xf32>
}
