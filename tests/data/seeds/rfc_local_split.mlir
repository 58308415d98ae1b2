// The RFC's example of mesh.local_split.
mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])
func.func @main(%0: tensor<2x4x8xf32, #mesh.shard<[[], [1], []]>>) -> tensor<2x4x8xf32, #mesh.shard<[[], [1], [0]]>> attributes { mesh_cluster = @mesh0 } {
  %1 = mesh.local_split %0 {sharding = [[], [], [0]]} : tensor<2x4x8xf32, #mesh.shard<[[], [1], []]>>
         -> tensor<2x4x8xf32, #mesh.shard<[[], [1], [0]]>>
  return %1 : tensor<2x4x8xf32, #mesh.shard<[[], [1], [0]]>>
}
