// Rewrite an inner product of flattened tensors to a sum over their original dims, so that sharding any of them needs no gather.
// RUN: meshgen opt %s --mesh x=4 --passes inner-product-unflatten | filecheck %s

func.func @f(%x: tensor<8x4xf32>, %y: tensor<8x4xf32>) -> tensor<f32> {
  %a = stablehlo.reshape %x : (tensor<8x4xf32>) -> tensor<32xf32>
  %b = stablehlo.reshape %y : (tensor<8x4xf32>) -> tensor<32xf32>
  %r = stablehlo.dot_general %a, %b, contracting_dims = [0] x [0] : (tensor<32xf32>, tensor<32xf32>) -> tensor<f32>
  return %r : tensor<f32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.multiply %x, %y : tensor<8x4xf32>
// CHECK-NEXT: %1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %r = stablehlo.reduce(%0 init: %1) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x4xf32>, tensor<f32>) -> tensor<f32>
// CHECK-NEXT: func.return %r : tensor<f32>
