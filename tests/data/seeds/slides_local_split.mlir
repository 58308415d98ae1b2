// The slides: a whole tensor cut on two devices.
mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
func.func @main(%0: tensor<2xf32, #mesh.shard<[]>>) -> tensor<2xf32, #mesh.shard<[[0]]>> attributes { mesh_cluster = @mesh0 } {
  %1 = mesh.local_split %0 {sharding = [[0]]} :
    tensor<2xf32, #mesh.shard<[]>> ->
    tensor<2xf32, #mesh.shard<[[0]]>>
  return %1 : tensor<2xf32, #mesh.shard<[[0]]>>
}
