// The RFC's examples of #mesh.shard: a tensor split along axis 0, and one that is a partial sum along axis 1 too.
mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])
func.func @main(%0: tensor<4x8xf32, #mesh.shard<[[0]]>>, %1: tensor<4x8xf32, #mesh.shard<[[0], [], [1]]>>) -> (tensor<4x8xf32, #mesh.shard<[[0]]>>, tensor<4x8xf32, #mesh.shard<[[0], [], [1]]>>) attributes { mesh_cluster = @mesh0 } {
  return %0, %1 : tensor<4x8xf32, #mesh.shard<[[0]]>>, tensor<4x8xf32, #mesh.shard<[[0], [], [1]]>>
}
