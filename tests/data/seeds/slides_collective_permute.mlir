// The slides: shards go round along a mesh axis.
mesh.cluster @mesh0(rank = 1, dim_sizes = [3])
func.func @main(%0: tensor<3xf32, #mesh.shard<@mesh0, [[0]]>>) -> tensor<3xf32, #mesh.shard<@mesh0, [[0]]>> {
  %1 = mesh.collective_permute %0 {mesh_axis = 0} :
    tensor<3xf32, #mesh.shard<@mesh0, [[0]]>> ->
    tensor<3xf32, #mesh.shard<@mesh0, [[0]]>>
  return %1 : tensor<3xf32, #mesh.shard<@mesh0, [[0]]>>
}
