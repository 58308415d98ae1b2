// Mean and squared deviations are exchanged together instead of one after the other.
// RUN: meshgen opt %s --passes mean-variance-merge | filecheck %s

shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
func.func @f(%x: tensor<8x64xf32>) -> tensor<8xf32> {
  %z = stablehlo.constant dense<0.0> : tensor<f32>
  %n = stablehlo.constant dense<128.0> : tensor<8xf32>
  %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  %a = stablehlo.divide %s, %n : tensor<8xf32>
  %m = shard.all_reduce %a on @g grid_axes = [1] : tensor<8xf32> -> tensor<8xf32>
  %b = stablehlo.broadcast_in_dim %m, dims = [0] : (tensor<8xf32>) -> tensor<8x64xf32>
  %d = stablehlo.subtract %x, %b : tensor<8x64xf32>
  %q = stablehlo.multiply %d, %d : tensor<8x64xf32>
  %t = stablehlo.reduce(%q init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
  %c = stablehlo.divide %t, %n : tensor<8xf32>
  %v = shard.all_reduce %c on @g grid_axes = [1] : tensor<8xf32> -> tensor<8xf32>
  %r = stablehlo.add %v, %m : tensor<8xf32>
  return %r : tensor<8xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %z = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %n = stablehlo.constant dense<1.280000e+02> : tensor<8xf32>
// CHECK-NEXT: %s = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK-NEXT: %a = stablehlo.divide %s, %n : tensor<8xf32>
// CHECK-NEXT: %0 = stablehlo.reshape %a : (tensor<8xf32>) -> tensor<1x8xf32>
// CHECK-NEXT: %1 = stablehlo.constant dense<2.000000e+00> : tensor<1x8xf32>
// CHECK-NEXT: %2 = stablehlo.multiply %0, %1 : tensor<1x8xf32>
// CHECK-NEXT: %3 = stablehlo.reshape %2 : (tensor<1x8xf32>) -> tensor<8xf32>
// CHECK-NEXT: %4 = stablehlo.broadcast_in_dim %3, dims = [0] : (tensor<8xf32>) -> tensor<8x64xf32>
// CHECK-NEXT: %5 = stablehlo.subtract %x, %4 : tensor<8x64xf32>
// CHECK-NEXT: %6 = stablehlo.multiply %5, %5 : tensor<8x64xf32>
// CHECK-NEXT: %7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %8 = stablehlo.reduce(%6 init: %7) applies stablehlo.add across dimensions = [1] : (tensor<8x64xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK-NEXT: %9 = stablehlo.reshape %8 : (tensor<8xf32>) -> tensor<1x8xf32>
// CHECK-NEXT: %10 = stablehlo.constant dense<7.812500e-03> : tensor<1x8xf32>
// CHECK-NEXT: %11 = stablehlo.multiply %9, %10 : tensor<1x8xf32>
// CHECK-NEXT: %12 = stablehlo.concatenate %0, %11, dim = 1 : (tensor<1x8xf32>, tensor<1x8xf32>) -> tensor<1x16xf32>
// CHECK-NEXT: %13 = shard.all_gather %12 on @g grid_axes = [1] gather_axis = 0 {{.*}} : tensor<1x16xf32> -> tensor<2x16xf32>
// CHECK-NEXT: %14 = stablehlo.slice %13 [0:2, 0:8] : (tensor<2x16xf32>) -> tensor<2x8xf32>
// CHECK-NEXT: %15 = stablehlo.slice %13 [0:2, 8:16] : (tensor<2x16xf32>) -> tensor<2x8xf32>
// CHECK-NEXT: %16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %17 = stablehlo.reduce(%14 init: %16) applies stablehlo.add across dimensions = [0] : (tensor<2x8xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK-NEXT: %m = stablehlo.reshape %17 : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: %18 = stablehlo.broadcast_in_dim %17, dims = [1] : (tensor<8xf32>) -> tensor<2x8xf32>
// CHECK-NEXT: %19 = stablehlo.constant dense<2.000000e+00> : tensor<2x8xf32>
// CHECK-NEXT: %20 = stablehlo.multiply %14, %19 : tensor<2x8xf32>
// CHECK-NEXT: %21 = stablehlo.subtract %20, %18 : tensor<2x8xf32>
// CHECK-NEXT: %22 = stablehlo.multiply %21, %21 : tensor<2x8xf32>
// CHECK-NEXT: %23 = stablehlo.constant dense<5.000000e-01> : tensor<2x8xf32>
// CHECK-NEXT: %24 = stablehlo.multiply %22, %23 : tensor<2x8xf32>
// CHECK-NEXT: %25 = stablehlo.add %15, %24 : tensor<2x8xf32>
// CHECK-NEXT: %26 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %27 = stablehlo.reduce(%25 init: %26) applies stablehlo.add across dimensions = [0] : (tensor<2x8xf32>, tensor<f32>) -> tensor<8xf32>
// CHECK-NEXT: %v = stablehlo.reshape %27 : (tensor<8xf32>) -> tensor<8xf32>
// CHECK-NEXT: %r = stablehlo.add %v, %m : tensor<8xf32>
// CHECK-NEXT: func.return %r : tensor<8xf32>
