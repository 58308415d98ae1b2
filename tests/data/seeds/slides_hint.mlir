// The slides: a hint for the maker of a value.
mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])
func.func @main(%x: tensor<2x5xf32>) -> tensor<2x5xf32> attributes { mesh_cluster = @mesh0 } {
  %0 = mhlo.abs %x : tensor<2x5xf32>
  %1 = mesh.annotate %0 {#mesh.shard<[[0], [1]]>,
      required = false, as_result = true} :
      tensor<2x5xf32> -> tensor<2x5xf32>
  %2 = mhlo.tanh %1 : tensor<2x5xf32>
  return %2 : tensor<2x5xf32>
}
