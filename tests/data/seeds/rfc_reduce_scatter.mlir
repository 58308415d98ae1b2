// The RFC's example of mesh.reduce_scatter.
mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
func.func @main(%0: tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0]]>>) -> tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>> attributes { mesh_cluster = @mesh0 } {
  %1 = mesh.reduce_scatter %0 {mesh_axis = [0], reduction = "sum", tensor_axis = 2 : i64} :
     tensor<2x4x8xf32, #mesh.shard<[[], [], [], [0]]>> -> tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>>
  return %1 : tensor<2x4x8xf32, #mesh.shard<[[], [], [0]]>>
}
