// Cross-entropy: the gradient of looking up the logarithm of each row's label. Without the pass the labels are sorted, and the gradient is
// stored before its user reads it.
// GAIN: step 2.4
// NUMBERS: 4096=256

module {
  func.func public @main(%arg0: tensor<512x4096xf32>, %arg1: tensor<512xi32>) -> (tensor<512x4096xf32> {jax.result_info = "result"}) {
    %0:2 = call @log_softmax(%arg0) : (tensor<512x4096xf32>) -> (tensor<512x4096xf32>, tensor<512x1xf32>)
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [0] : (tensor<512xi32>) -> tensor<512x1xi32>
    %2 = call @take_along_axis(%1) : (tensor<512x1xi32>) -> tensor<512x1x1xi32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %3 = stablehlo.negate %cst : tensor<f32>
    %cst_0 = stablehlo.constant dense<5.120000e+02> : tensor<f32>
    %4 = stablehlo.divide %3, %cst_0 : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<f32>) -> tensor<512x1xf32>
    %6 = call @take_along_axis_0(%2, %5) : (tensor<512x1x1xi32>, tensor<512x1xf32>) -> tensor<512x4096xf32>
    %7 = call @log_softmax_1(%0#0, %0#1, %6) : (tensor<512x4096xf32>, tensor<512x1xf32>, tensor<512x4096xf32>) -> tensor<512x4096xf32>
    return %7 : tensor<512x4096xf32>
  }
  func.func private @log_softmax(%arg0: tensor<512x4096xf32>) -> (tensor<512x4096xf32>, tensor<512x1xf32>) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.maximum across dimensions = [1] : (tensor<512x4096xf32>, tensor<f32>) -> tensor<512xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<512xf32>
    %2 = stablehlo.maximum %1, %0 : tensor<512xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<512xf32>) -> tensor<512x1xf32>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<512x1xf32>) -> tensor<512x4096xf32>
    %5 = stablehlo.subtract %arg0, %4 : tensor<512x4096xf32>
    %6 = stablehlo.exponential %5 : tensor<512x4096xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.reduce(%6 init: %cst_1) applies stablehlo.add across dimensions = [1] : (tensor<512x4096xf32>, tensor<f32>) -> tensor<512xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<512xf32>) -> tensor<512x1xf32>
    return %6, %8 : tensor<512x4096xf32>, tensor<512x1xf32>
  }
  func.func private @take_along_axis(%arg0: tensor<512x1xi32>) -> tensor<512x1x1xi32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<512x1xi32>
    %1 = stablehlo.compare LT, %arg0, %0, SIGNED : (tensor<512x1xi32>, tensor<512x1xi32>) -> tensor<512x1xi1>
    %c_0 = stablehlo.constant dense<4096> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<512x1xi32>
    %3 = stablehlo.add %arg0, %2 : tensor<512x1xi32>
    %4 = stablehlo.select %1, %3, %arg0 : tensor<512x1xi1>, tensor<512x1xi32>
    %5 = stablehlo.reshape %4 : (tensor<512x1xi32>) -> tensor<512x1x1xi32>
    return %5 : tensor<512x1x1xi32>
  }
  func.func private @take_along_axis_0(%arg0: tensor<512x1x1xi32>, %arg1: tensor<512x1xf32>) -> tensor<512x4096xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<512x4096xf32>
    %c = stablehlo.constant dense<4095> : tensor<1xi32>
    %c_0 = stablehlo.constant dense<2147483647> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %2 = stablehlo.minimum %c, %1 : tensor<1xi32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [2] : (tensor<1xi32>) -> tensor<512x1x1xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %4 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<512x1x1xi32>
    %5 = stablehlo.clamp %4, %arg0, %3 : tensor<512x1x1xi32>
    %6 = "stablehlo.scatter"(%0, %5, %arg1) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [1], input_batching_dims = [0], scatter_indices_batching_dims = [0], scatter_dims_to_operand_dims = [1], index_vector_dim = 2>, unique_indices = false}> ({
    ^bb0(%arg2: tensor<f32>, %arg3: tensor<f32>):
      %7 = stablehlo.add %arg2, %arg3 : tensor<f32>
      stablehlo.return %7 : tensor<f32>
    }) : (tensor<512x4096xf32>, tensor<512x1x1xi32>, tensor<512x1xf32>) -> tensor<512x4096xf32>
    return %6 : tensor<512x4096xf32>
  }
  func.func private @log_softmax_1(%arg0: tensor<512x4096xf32>, %arg1: tensor<512x1xf32>, %arg2: tensor<512x4096xf32>) -> tensor<512x4096xf32> {
    %0 = stablehlo.negate %arg2 : tensor<512x4096xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<512x4096xf32>, tensor<f32>) -> tensor<512xf32>
    %2 = stablehlo.reshape %1 : (tensor<512xf32>) -> tensor<512x1xf32>
    %3 = stablehlo.divide %2, %arg1 : tensor<512x1xf32>
    %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = stablehlo.reduce(%3 init: %cst_0) applies stablehlo.add across dimensions = [1] : (tensor<512x1xf32>, tensor<f32>) -> tensor<512xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<512xf32>) -> tensor<512x4096xf32>
    %6 = stablehlo.multiply %5, %arg0 : tensor<512x4096xf32>
    %7 = stablehlo.add %arg2, %6 : tensor<512x4096xf32>
    return %7 : tensor<512x4096xf32>
  }
}
