// The slides: an encoding that names its mesh.
mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])
func.func @foo(%0: tensor<4xf32, #mesh.shard<@mesh0, [[0]]>>) -> tensor<4xf32, #mesh.shard<@mesh0, [[0]]>> {
  return %0 : tensor<4xf32, #mesh.shard<@mesh0, [[0]]>>
}
