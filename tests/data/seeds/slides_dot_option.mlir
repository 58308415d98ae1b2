// The slides: the sharding of an operation's loops.
mesh.cluster @mesh0(rank = 1, dim_sizes = [2])
func.func @main(%lhs: tensor<2x4xf32>, %rhs: tensor<4x8xf32>) -> tensor<2x8xf32> attributes { mesh_cluster = @mesh0 } {
  %0 = "mhlo.dot"(%lhs, %rhs) {sharding = [[], [], [0]]} :
    (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}
