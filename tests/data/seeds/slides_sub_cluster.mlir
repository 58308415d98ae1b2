// The slides name mesh.sub_cluster without an example: a row of devices of a mesh, in meshgen's spelling.
mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 3])
mesh.sub_cluster @row(@mesh0, axes = [1])
func.func @main(%x: tensor<6x4xf32>) -> tensor<6x4xf32> attributes { mesh_cluster = @row } {
  %0 = mesh.annotate %x {sharding = [[0]], required = true} : tensor<6x4xf32> -> tensor<6x4xf32>
  %1 = mesh.annotate %0 {#mesh.shard<@mesh0, [[0], [1]]>, as_result = false} : tensor<6x4xf32>
  return %1 : tensor<6x4xf32>
}
