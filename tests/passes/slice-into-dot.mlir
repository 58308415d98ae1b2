// Replace a slice of a dot's result by a slice of the operand with the sliced columns.
// RUN: meshgen opt %s --mesh x=4 --passes slice-into-dot | filecheck %s

func.func @f(%x: tensor<16x8xf32>, %w: tensor<8x64xf32>) -> tensor<16x32xf32> {
  %h = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x64xf32>) -> tensor<16x64xf32>
  %a = stablehlo.slice %h [0:16, 0:32] : (tensor<16x64xf32>) -> tensor<16x32xf32>
  %b = stablehlo.slice %h [0:16, 32:64] : (tensor<16x64xf32>) -> tensor<16x32xf32>
  %r = stablehlo.multiply %a, %b : tensor<16x32xf32>
  return %r : tensor<16x32xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %va_operand = stablehlo.slice %w [0:8, 0:32] : (tensor<8x64xf32>) -> tensor<8x32xf32>
// CHECK-NEXT: %a = stablehlo.dot_general %x, %va_operand, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
// CHECK-NEXT: %vb_operand = stablehlo.slice %w [0:8, 32:64] : (tensor<8x64xf32>) -> tensor<8x32xf32>
// CHECK-NEXT: %b = stablehlo.dot_general %x, %vb_operand, contracting_dims = [1] x [0] : (tensor<16x8xf32>, tensor<8x32xf32>) -> tensor<16x32xf32>
// CHECK-NEXT: %r = stablehlo.multiply %a, %b : tensor<16x32xf32>
// CHECK-NEXT: func.return %r : tensor<16x32xf32>
