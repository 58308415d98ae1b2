// The GEMM's kernel computes maxima and sums of each 128 columns for a softmax over words, so the logits need not be written.
// RUN: meshgen opt %s --passes softmax-into-dot | filecheck %s

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @f(%x: tensor<16x64xbf16>, %w: tensor<64x256xbf16>, %i: tensor<16x1xi32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %z = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x64xbf16>, tensor<64x256xbf16>) -> tensor<16x256xf32>
  %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %m = stablehlo.reduce(%z init: %least) applies stablehlo.maximum across dimensions = [1] : (tensor<16x256xf32>, tensor<f32>) -> tensor<16xf32>
  %r = shard.all_reduce %m on @g grid_axes = [0] reduction = max : tensor<16xf32> -> tensor<16xf32>
  %b = stablehlo.broadcast_in_dim %r, dims = [0] : (tensor<16xf32>) -> tensor<16x256xf32>
  %d = stablehlo.subtract %z, %b : tensor<16x256xf32>
  %e = stablehlo.exponential %d : tensor<16x256xf32>
  %s = stablehlo.reduce(%e init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<16x256xf32>, tensor<f32>) -> tensor<16xf32>
  %t = shard.all_reduce %s on @g grid_axes = [0] : tensor<16xf32> -> tensor<16xf32>
  %l = "stablehlo.gather"(%z, %i) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}> : (tensor<16x256xf32>, tensor<16x1xi32>) -> tensor<16xf32>
  return %t, %l : tensor<16xf32>, tensor<16xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %z = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<16x64xbf16>, tensor<64x256xbf16>) -> tensor<16x256xf32>
// CHECK-NEXT: %least = stablehlo.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT: %zero = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %0 = stablehlo.reshape %z : (tensor<16x256xf32>) -> tensor<16x2x128xf32>
// CHECK-NEXT: %1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT: %2 = stablehlo.reduce(%0 init: %1) applies stablehlo.maximum across dimensions = [2] : (tensor<16x2x128xf32>, tensor<f32>) -> tensor<16x2xf32>
// CHECK-NEXT: %3 = stablehlo.is_finite %2 : (tensor<16x2xf32>) -> tensor<16x2xi1>
// CHECK-NEXT: %4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<16x2xf32>
// CHECK-NEXT: %6 = stablehlo.select %3, %2, %5 : tensor<16x2xi1>, tensor<16x2xf32>
// CHECK-NEXT: %7 = stablehlo.broadcast_in_dim %6, dims = [0, 1] : (tensor<16x2xf32>) -> tensor<16x2x128xf32>
// CHECK-NEXT: %8 = stablehlo.subtract %0, %7 : tensor<16x2x128xf32>
// CHECK-NEXT: %9 = stablehlo.exponential %8 : tensor<16x2x128xf32>
// CHECK-NEXT: %10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
// CHECK-NEXT: %11 = stablehlo.reduce(%9 init: %10) applies stablehlo.add across dimensions = [2] : (tensor<16x2x128xf32>, tensor<f32>) -> tensor<16x2xf32>
// CHECK-NEXT: %m = stablehlo.reduce(%2 init: %least) applies stablehlo.maximum across dimensions = [1] : (tensor<16x2xf32>, tensor<f32>) -> tensor<16xf32>
// CHECK-NEXT: %r = shard.all_reduce %m on @g grid_axes = [0] reduction = max : tensor<16xf32> -> tensor<16xf32>
// CHECK-NEXT: %12 = stablehlo.reshape %r : (tensor<16xf32>) -> tensor<16xf32>
// CHECK-NEXT: %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<16xf32>) -> tensor<16x2xf32>
// CHECK-NEXT: %14 = stablehlo.subtract %2, %13 : tensor<16x2xf32>
// CHECK-NEXT: %15 = stablehlo.exponential %14 : tensor<16x2xf32>
// CHECK-NEXT: %16 = stablehlo.multiply %11, %15 : tensor<16x2xf32>
// CHECK-NEXT: %s = stablehlo.reduce(%16 init: %zero) applies stablehlo.add across dimensions = [1] : (tensor<16x2xf32>, tensor<f32>) -> tensor<16xf32>
// CHECK-NEXT: %t = shard.all_reduce %s on @g grid_axes = [0] : tensor<16xf32> -> tensor<16xf32>
// CHECK-NEXT: %17 = stablehlo.reshape %i : (tensor<16x1xi32>) -> tensor<16xi32>
// CHECK-NEXT: %18 = stablehlo.constant dense<0> : tensor<i32>
// CHECK-NEXT: %19 = stablehlo.broadcast_in_dim %18, dims = [] : (tensor<i32>) -> tensor<16xi32>
// CHECK-NEXT: %20 = stablehlo.constant dense<255> : tensor<i32>
// CHECK-NEXT: %21 = stablehlo.broadcast_in_dim %20, dims = [] : (tensor<i32>) -> tensor<16xi32>
// CHECK-NEXT: %22 = stablehlo.clamp %19, %17, %21 : tensor<16xi32>
// CHECK-NEXT: %23 = stablehlo.iota dim = 1 : tensor<16x256xi32>
// CHECK-NEXT: %24 = stablehlo.reshape %22 : (tensor<16xi32>) -> tensor<16xi32>
// CHECK-NEXT: %25 = stablehlo.broadcast_in_dim %24, dims = [0] : (tensor<16xi32>) -> tensor<16x256xi32>
// CHECK-NEXT: %26 = stablehlo.compare EQ, %23, %25, SIGNED : (tensor<16x256xi32>, tensor<16x256xi32>) -> tensor<16x256xi1>
// CHECK-NEXT: %27 = stablehlo.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT: %28 = stablehlo.broadcast_in_dim %27, dims = [] : (tensor<f32>) -> tensor<16x256xf32>
// CHECK-NEXT: %29 = stablehlo.select %26, %z, %28 : tensor<16x256xi1>, tensor<16x256xf32>
// CHECK-NEXT: %30 = stablehlo.reshape %29 : (tensor<16x256xf32>) -> tensor<16x2x128xf32>
// CHECK-NEXT: %31 = stablehlo.constant dense<0xFF800000> : tensor<f32>
// CHECK-NEXT: %32 = stablehlo.reduce(%30 init: %31) applies stablehlo.maximum across dimensions = [2] : (tensor<16x2x128xf32>, tensor<f32>) -> tensor<16x2xf32>
// CHECK-NEXT: %33 = stablehlo.constant dense<128> : tensor<i32>
// CHECK-NEXT: %34 = stablehlo.broadcast_in_dim %33, dims = [] : (tensor<i32>) -> tensor<16x1xi32>
// CHECK-NEXT: %35 = stablehlo.divide %i, %34 : tensor<16x1xi32>
// CHECK-NEXT: %l = "stablehlo.gather"(%32, %35) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}> : (tensor<16x2xf32>, tensor<16x1xi32>) -> tensor<16xf32>
// CHECK-NEXT: func.return %t, %l : tensor<16xf32>, tensor<16xf32>
