// Expand the square of a complex number into real and imaginary parts.
// RUN: meshgen opt %s --passes expand-complex | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%a: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<8xf32> {
  %z = stablehlo.complex %a, %b : tensor<8xcomplex<f32>>
  %s = stablehlo.multiply %z, %z : tensor<8xcomplex<f32>>
  %i = stablehlo.imag %s : (tensor<8xcomplex<f32>>) -> tensor<8xf32>
  %r = shard.all_reduce %i on @g grid_axes = [0] : tensor<8xf32> -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.multiply %a, %b : tensor<8xf32>
// CHECK-NEXT: %1 = stablehlo.multiply %b, %a : tensor<8xf32>
// CHECK-NEXT: %2 = stablehlo.add %0, %1 : tensor<8xf32>
// CHECK-NEXT: %i = stablehlo.reshape %2 : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: %r = shard.all_reduce %i
