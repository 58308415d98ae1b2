// Rows of 1,003 elements are not 16-byte aligned, and tensor cores do not support 8-bit operands stored by columns: both are copied.
// RUN: meshgen opt %s --passes copy-operands | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<4096x1003xbf16>, %w: tensor<1003x4096xbf16>, %y: tensor<4096x4096xi8>, %v: tensor<4096x4096xi8>) -> (tensor<4096x4096xbf16>, tensor<4096x4096xi32>) {
  %p = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4096x1003xbf16>, tensor<1003x4096xbf16>) -> tensor<4096x4096xbf16>
  %q = stablehlo.dot_general %y, %v, contracting_dims = [1] x [0] : (tensor<4096x4096xi8>, tensor<4096x4096xi8>) -> tensor<4096x4096xi32>
  %r = shard.all_reduce %p on @g grid_axes = [0] : tensor<4096x4096xbf16> -> tensor<4096x4096xbf16>
  return %r, %q : tensor<4096x4096xbf16>, tensor<4096x4096xi32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: stablehlo.constant
// CHECK-NEXT: %[[P:.*]] = stablehlo.pad %x
// CHECK-NEXT: %[[X:.*]] = stablehlo.slice %[[P]]
// CHECK-NEXT: %p = stablehlo.dot_general %[[X]], %w
// CHECK-NEXT: %[[T:.*]] = stablehlo.transpose %v
// CHECK-NEXT: %[[V:.*]] = stablehlo.transpose %[[T]]
// CHECK-NEXT: %q = stablehlo.dot_general %y, %[[V]]
