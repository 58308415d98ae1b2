// The RFC's example of mesh.all_gather.
mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])
func.func @main(%0: tensor<2x4xf32, #mesh.shard<[[0], [1]]>>) -> tensor<2x4xf32> attributes { mesh_cluster = @mesh0 } {
  %1 = mesh.all_gather %0 {mesh_axis = [[0], [1]]} :
    tensor<2x4xf32, #mesh.shard<[[0], [1]]>> -> tensor<2x4xf32>
  return %1 : tensor<2x4xf32>
}
