// The RFC's clusters of unknown size, and a function on one.
mesh.cluster @mesh1(rank = 2, dim_sizes = [0, 4])
func.func @main(%arg0: tensor<?x?xf32>) -> tensor<?x?xf32> attributes
                                                { mesh_cluster = @mesh1 } {
  %0 = mesh.annotate %arg0 {sharding = [[1]]} : tensor<?x?xf32> -> tensor<?x?xf32>
  %1 = mhlo.abs %0 : tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}
