// The slides: a gather along the outer one of two axes that split a dim.
mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 2])
func.func @main(%0: tensor<2x4xf32, #mesh.shard<[[], [1, 0]]>>) -> tensor<2x4xf32, #mesh.shard<[[], [0]]>> attributes { mesh_cluster = @mesh0 } {
  %1 = mesh.all_gather %0 {mesh_axis = [[], [1]]} :
    tensor<2x4xf32, #mesh.shard<[[], [1, 0]]>> ->
    tensor<2x4xf32, #mesh.shard<[[], [0]]>>
  return %1 : tensor<2x4xf32, #mesh.shard<[[], [0]]>>
}
