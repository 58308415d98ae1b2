// The RFC's example of mesh.all_reduce: a partial sum along axes 0 and 1, reduced along axis 0.
mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])
func.func @main(%0: tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0, 1]]>>) -> tensor<2x4x8xf32, #mesh.shard<[[], [], [], [1]]>> attributes { mesh_cluster = @mesh0 } {
  %1 = mesh.all_reduce %0 {reduction = "sum", mesh_axis = [0]} :
    tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0, 1]]>> -> tensor<2x4x8xf32, #mesh.shard<[[], [], [], [1]]>>
  return %1 : tensor<2x4x8xf32, #mesh.shard<[[], [], [], [1]]>>
}
