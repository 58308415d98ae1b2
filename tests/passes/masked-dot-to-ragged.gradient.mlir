// The gradient of the matrices masks both operands by different rows; the intersection counts. The last dot masks rows only by the end of a group
// and is not rewritten.
// RUN: meshgen opt %s --passes masked-dot-to-ragged | filecheck %s

shard.grid @g(shape = 2) {axis_names = ["x"]}
func.func @gradient(%x: tensor<32x16xbf16>, %dy: tensor<32x8xbf16>, %start: tensor<2xi32>, %end: tensor<2xi32>, %last: tensor<2xi32>) -> (tensor<2x16x8xbf16>, tensor<2x16x8xbf16>) {
  %zero = stablehlo.constant dense<0.0> : tensor<bf16>
  %row = stablehlo.iota dim = 1 : tensor<2x32x16xi32>
  %2 = stablehlo.broadcast_in_dim %start, dims = [0] : (tensor<2xi32>) -> tensor<2x32x16xi32>
  %3 = stablehlo.broadcast_in_dim %end, dims = [0] : (tensor<2xi32>) -> tensor<2x32x16xi32>
  %4 = stablehlo.compare LE, %2, %row : (tensor<2x32x16xi32>, tensor<2x32x16xi32>) -> tensor<2x32x16xi1>
  %5 = stablehlo.compare LT, %row, %3 : (tensor<2x32x16xi32>, tensor<2x32x16xi32>) -> tensor<2x32x16xi1>
  %6 = stablehlo.and %4, %5 : tensor<2x32x16xi1>
  %7 = stablehlo.broadcast_in_dim %x, dims = [1, 2] : (tensor<32x16xbf16>) -> tensor<2x32x16xbf16>
  %8 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<bf16>) -> tensor<2x32x16xbf16>
  %9 = stablehlo.select %6, %7, %8 : tensor<2x32x16xi1>, tensor<2x32x16xbf16>
  %i = stablehlo.iota dim = 0 : tensor<32xi32>
  %10 = stablehlo.broadcast_in_dim %i, dims = [1] : (tensor<32xi32>) -> tensor<2x32x8xi32>
  %11 = stablehlo.broadcast_in_dim %start, dims = [0] : (tensor<2xi32>) -> tensor<2x32x8xi32>
  %12 = stablehlo.broadcast_in_dim %last, dims = [0] : (tensor<2xi32>) -> tensor<2x32x8xi32>
  %13 = stablehlo.compare GE, %10, %11 : (tensor<2x32x8xi32>, tensor<2x32x8xi32>) -> tensor<2x32x8xi1>
  %14 = stablehlo.compare LE, %10, %12 : (tensor<2x32x8xi32>, tensor<2x32x8xi32>) -> tensor<2x32x8xi1>
  %15 = stablehlo.and %13, %14 : tensor<2x32x8xi1>
  %16 = stablehlo.broadcast_in_dim %dy, dims = [1, 2] : (tensor<32x8xbf16>) -> tensor<2x32x8xbf16>
  %17 = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<bf16>) -> tensor<2x32x8xbf16>
  %18 = stablehlo.select %15, %16, %17 : tensor<2x32x8xi1>, tensor<2x32x8xbf16>
  %d = stablehlo.dot_general %9, %18, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<2x32x16xbf16>, tensor<2x32x8xbf16>) -> tensor<2x16x8xbf16>
  %19 = stablehlo.select %14, %16, %17 : tensor<2x32x8xi1>, tensor<2x32x8xbf16>
  %e = stablehlo.dot_general %x, %19, contracting_dims = [0] x [1] : (tensor<32x16xbf16>, tensor<2x32x8xbf16>) -> tensor<16x2x8xbf16>
  %t = stablehlo.transpose %e, dims = [1, 0, 2] : (tensor<16x2x8xbf16>) -> tensor<2x16x8xbf16>
  %r = shard.all_reduce %t on @g grid_axes = [0] : tensor<2x16x8xbf16> -> tensor<2x16x8xbf16>
  return %d, %r : tensor<2x16x8xbf16>, tensor<2x16x8xbf16>
}

// CHECK-LABEL: func.func public @gradient
// CHECK: stablehlo.convert %last
// CHECK: %[[END:.*]] = stablehlo.minimum %end, %
// CHECK: %d = "sched.ragged_dot"(%x, %dy, %start, %[[END]]) <{contracts = true}>
// CHECK: %e = stablehlo.dot_general
