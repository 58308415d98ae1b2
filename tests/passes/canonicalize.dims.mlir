// Rewrite ops that only add dims of size 1 to reshapes, if the result is returned or sent.
// RUN: meshgen opt %s --passes canonicalize | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<8x2xf32>) -> (tensor<8x1x2xf32>, tensor<2x8x1xf32>, tensor<8x2x1xf32>) {
  %a = stablehlo.broadcast_in_dim %x, dims = [0, 2] : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
  %b = stablehlo.broadcast_in_dim %x, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8x1xf32>
  %c = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<8x2xf32>) -> tensor<8x2x1xf32>
  %t = stablehlo.tanh %c : tensor<8x2x1xf32>
  %s = shard.all_reduce %a on @g grid_axes = [0] : tensor<8x1x2xf32> -> tensor<8x1x2xf32>
  return %s, %b, %t : tensor<8x1x2xf32>, tensor<2x8x1xf32>, tensor<8x2x1xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %a = stablehlo.reshape %x : (tensor<8x2xf32>) -> tensor<8x1x2xf32>
// CHECK-NEXT: %b = stablehlo.broadcast_in_dim %x, dims = [1, 0] : (tensor<8x2xf32>) -> tensor<2x8x1xf32>
// CHECK-NEXT: %c = stablehlo.broadcast_in_dim %x, dims = [0, 1] : (tensor<8x2xf32>) -> tensor<8x2x1xf32>
