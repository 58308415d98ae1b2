// The RFC's example of mesh.annotate: for the maker of a value, and for each of its users.
mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])
func.func @main(%x: tensor<2x5xf32>) -> (tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>) attributes { mesh_cluster = @mesh0 } {
  %0 = mhlo.abs %x : tensor<2x5xf32>
  %1 = mesh.annotate %0 {sharding = [[0], [1]], required = true,
          as_result = true} : tensor<2x5xf32> -> tensor<2x5xf32>
  %2 = mesh.annotate %1 {sharding = [[0]], required = true,
          as_result = false} : tensor<2x5xf32> -> tensor<2x5xf32>
  %3 = mhlo.tanh %2 : tensor<2x5xf32>
  %4 = mesh.annotate %1 {sharding = [[1]], required = true,
          as_result = false} : tensor<2x5xf32> -> tensor<2x5xf32>
  %5 = mhlo.exponential %4 : tensor<2x5xf32>
  return %1, %3, %5 : tensor<2x5xf32>, tensor<2x5xf32>, tensor<2x5xf32>
}
