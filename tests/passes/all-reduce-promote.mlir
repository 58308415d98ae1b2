// NCCL's maximum drops NaN, so floats are reduced as order-preserving integers in which NaN is the largest.
// RUN: meshgen opt %s --passes all-reduce-promote | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {
  %r = shard.all_reduce %x on @g grid_axes = [0] reduction = max : tensor<8xf32> -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %0 = stablehlo.compare NE, %x, %x, FLOAT : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xi1>
// CHECK-NEXT: %1 = stablehlo.constant dense<2147483647> : tensor<i32>
// CHECK-NEXT: %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<i32>) -> tensor<8xi32>
// CHECK-NEXT: %3 = stablehlo.bitcast_convert %x : (tensor<8xf32>) -> tensor<8xi32>
// CHECK-NEXT: %4 = stablehlo.constant dense<31> : tensor<i32>
// CHECK-NEXT: %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i32>) -> tensor<8xi32>
// CHECK-NEXT: %6 = stablehlo.shift_right_arithmetic %3, %5 : tensor<8xi32>
// CHECK-NEXT: %7 = stablehlo.constant dense<2147483647> : tensor<i32>
// CHECK-NEXT: %8 = stablehlo.broadcast_in_dim %7, dims = [] : (tensor<i32>) -> tensor<8xi32>
// CHECK-NEXT: %9 = stablehlo.and %6, %8 : tensor<8xi32>
// CHECK-NEXT: %10 = stablehlo.xor %3, %9 : tensor<8xi32>
// CHECK-NEXT: %11 = stablehlo.select %0, %2, %10 : tensor<8xi1>, tensor<8xi32>
// CHECK-NEXT: %12 = shard.all_reduce %11 on @g grid_axes = [0] reduction = max : tensor<8xi32> -> tensor<8xi32>
// CHECK-NEXT: %13 = stablehlo.constant dense<31> : tensor<i32>
// CHECK-NEXT: %14 = stablehlo.broadcast_in_dim %13, dims = [] : (tensor<i32>) -> tensor<8xi32>
// CHECK-NEXT: %15 = stablehlo.shift_right_arithmetic %12, %14 : tensor<8xi32>
// CHECK-NEXT: %16 = stablehlo.constant dense<2147483647> : tensor<i32>
// CHECK-NEXT: %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<i32>) -> tensor<8xi32>
// CHECK-NEXT: %18 = stablehlo.and %15, %17 : tensor<8xi32>
// CHECK-NEXT: %19 = stablehlo.xor %12, %18 : tensor<8xi32>
// CHECK-NEXT: %r = stablehlo.bitcast_convert %19 : (tensor<8xi32>) -> tensor<8xf32>
// CHECK-NEXT: func.return %r : tensor<8xf32>
