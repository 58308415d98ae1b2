// The slides: a tensor that is split already is split further.
mesh.cluster @mesh1(rank = 2, dim_sizes = [2, 2])
func.func @main(%0: tensor<2x4xf32, #mesh.shard<[[1], []]>>) -> tensor<2x4xf32, #mesh.shard<[[1], [0]]>> attributes { mesh_cluster = @mesh1 } {
  %1 = mesh.local_split %0 {sharding = [[], [0]]} :
    tensor<2x4xf32, #mesh.shard<[[1], []]>> ->
    tensor<2x4xf32, #mesh.shard<[[1], [0]]>>
  return %1 : tensor<2x4xf32, #mesh.shard<[[1], [0]]>>
}
