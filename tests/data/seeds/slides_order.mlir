// The slides: axes in an order of their own, and a partial sum along axis 1.
mesh.cluster @mesh1(rank = 3, dim_sizes = [2, 2, 2])
func.func @bar(%0: tensor<4x8xf32, #mesh.shard<[[2, 0], [], [1]]>>) -> tensor<4x8xf32, #mesh.shard<[[2, 0], [], [1]]>>
  attributes { mesh_cluster = @mesh1 } {
  return %0 : tensor<4x8xf32, #mesh.shard<[[2, 0], [], [1]]>>
}
