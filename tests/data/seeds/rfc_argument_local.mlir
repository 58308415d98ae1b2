// The RFC's partitioned function whose arguments are on their devices already, before partition.
mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
func.func @main(%arg0: tensor<8xf32, #mesh.shard<[[0]]>>) -> tensor<8xf32, #mesh.shard<[[0]]>> attributes { mesh_cluster = @mesh0 } {
  %0 = mhlo.abs %arg0 : tensor<8xf32, #mesh.shard<[[0]]>>
  return %0 : tensor<8xf32, #mesh.shard<[[0]]>>
}
