// Rows of a tile of 32 start at 32 times the device's coordinate. The matrices are those of the device's two groups.
// RUN: meshgen opt %s --passes masked-dot-to-ragged | filecheck %s

shard.grid @g(shape = 2) {axis_names = ["x"]}
func.func @f(%x: tensor<32x16xbf16>, %w: tensor<2x16x8xbf16>, %start: tensor<2xi32>, %end: tensor<2xi32>) -> tensor<32x8xbf16> {
  %zero = stablehlo.constant dense<0.0> : tensor<bf16>
  %tile = stablehlo.constant dense<32> : tensor<i32>
  %p = meshgen.process_index on @g grid_axes = [0] : tensor<i32>
  %first = stablehlo.multiply %p, %tile : tensor<i32>
  %0 = stablehlo.broadcast_in_dim %first, dims = [] : (tensor<i32>) -> tensor<2x32x16xi32>
  %1 = stablehlo.iota dim = 1 : tensor<2x32x16xi32>
  %row = stablehlo.add %1, %0 : tensor<2x32x16xi32>
  %2 = stablehlo.broadcast_in_dim %start, dims = [0] : (tensor<2xi32>) -> tensor<2x32x16xi32>
  %3 = stablehlo.broadcast_in_dim %end, dims = [0] : (tensor<2xi32>) -> tensor<2x32x16xi32>
  %4 = stablehlo.compare LE, %2, %row : (tensor<2x32x16xi32>, tensor<2x32x16xi32>) -> tensor<2x32x16xi1>
  %5 = stablehlo.compare LT, %row, %3 : (tensor<2x32x16xi32>, tensor<2x32x16xi32>) -> tensor<2x32x16xi1>
  %6 = stablehlo.and %4, %5 : tensor<2x32x16xi1>
  %7 = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<32x16xbf16>) -> tensor<2x32x16xbf16>
  %8 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<bf16>) -> tensor<2x32x16xbf16>
  %9 = stablehlo.select %6, %7, %8 : tensor<2x32x16xi1>, tensor<2x32x16xbf16>
  %y = stablehlo.dot_general %9, %w, contracting_dims = [2, 0] x [1, 0] : (tensor<2x32x16xbf16>, tensor<2x16x8xbf16>) -> tensor<32x8xbf16>
  return %y : tensor<32x8xbf16>
}

// CHECK-LABEL: func.func public @f
// CHECK: %[[SHIFTED:.*]] = stablehlo.subtract
// CHECK-NOT: dot_general
// CHECK: %y = "sched.ragged_dot"(%x, %w, %{{.*}}, %{{.*}}) <{contracts = false}> : (tensor<32x16xbf16>, tensor<2x16x8xbf16>, tensor<2xi32>, tensor<2xi32>) -> tensor<32x8xbf16>
