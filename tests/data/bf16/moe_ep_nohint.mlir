module @jit__lambda attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=8]> {stablehlo.mesh = {axes = [{name = "x", size = 8 : i64}]}}
  func.func public @main(%arg0: tensor<8x16x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}, %arg1: tensor<64x8xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg2: tensor<8x64x128xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}, %arg3: tensor<8x128x64xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}) -> (tensor<8x16x64xbf16> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<64x8xbf16>) -> tensor<8x16x8xbf16>
    %cst = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.maximum across dimensions = [2] : (tensor<8x16x8xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %cst_0 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<8x16xbf16>
    %3 = stablehlo.maximum %2, %1 : tensor<8x16xbf16>
    %4 = stablehlo.broadcast_in_dim %3, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x8xbf16>
    %6 = stablehlo.subtract %0, %5 : tensor<8x16x8xbf16>
    %7 = stablehlo.exponential %6 : tensor<8x16x8xbf16>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %8 = stablehlo.reduce(%7 init: %cst_1) applies stablehlo.add across dimensions = [2] : (tensor<8x16x8xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x1xbf16>
    %10 = stablehlo.broadcast_in_dim %9, dims = [0, 1, 2] : (tensor<8x16x1xbf16>) -> tensor<8x16x8xbf16>
    %11 = stablehlo.divide %7, %10 : tensor<8x16x8xbf16>
    %12 = call @argmax(%11) : (tensor<8x16x8xbf16>) -> tensor<8x16xi32>
    %13 = call @_one_hot(%12) : (tensor<8x16xi32>) -> tensor<8x16x8xbf16>
    %14 = call @cumsum(%13) : (tensor<8x16x8xbf16>) -> tensor<8x16x8xbf16>
    %15 = stablehlo.multiply %14, %13 : tensor<8x16x8xbf16>
    %cst_2 = stablehlo.constant dense<6.000000e+00> : tensor<bf16>
    %16 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<bf16>) -> tensor<8x16x8xbf16>
    %17 = stablehlo.compare LE, %15, %16, FLOAT : (tensor<8x16x8xbf16>, tensor<8x16x8xbf16>) -> tensor<8x16x8xi1>
    %18 = stablehlo.convert %17 : (tensor<8x16x8xi1>) -> tensor<8x16x8xbf16>
    %19 = stablehlo.multiply %13, %18 : tensor<8x16x8xbf16>
    %20 = stablehlo.multiply %11, %19 : tensor<8x16x8xbf16>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %21 = stablehlo.reduce(%20 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<8x16x8xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %22 = stablehlo.multiply %15, %19 : tensor<8x16x8xbf16>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %23 = stablehlo.reduce(%22 init: %cst_4) applies stablehlo.add across dimensions = [2] : (tensor<8x16x8xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %24 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<bf16>) -> tensor<8x16xbf16>
    %25 = stablehlo.subtract %23, %24 : tensor<8x16xbf16>
    %26 = stablehlo.convert %25 : (tensor<8x16xbf16>) -> tensor<8x16xi32>
    %27 = call @_one_hot_1(%26) : (tensor<8x16xi32>) -> tensor<8x16x6xbf16>
    %28 = stablehlo.dot_general %19, %27, batching_dims = [0, 1] x [0, 1], contracting_dims = [] x [], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8xbf16>, tensor<8x16x6xbf16>) -> tensor<8x16x8x6xbf16>
    %29 = stablehlo.broadcast_in_dim %21, dims = [0, 1] : (tensor<8x16xbf16>) -> tensor<8x16x1x1xbf16>
    %30 = stablehlo.broadcast_in_dim %29, dims = [0, 1, 2, 3] : (tensor<8x16x1x1xbf16>) -> tensor<8x16x8x6xbf16>
    %31 = stablehlo.multiply %28, %30 : tensor<8x16x8x6xbf16>
    %32 = stablehlo.dot_general %arg0, %28, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x16x64xbf16>, tensor<8x16x8x6xbf16>) -> tensor<8x64x8x6xbf16>
    %33 = stablehlo.transpose %32, dims = [2, 0, 3, 1] : (tensor<8x64x8x6xbf16>) -> tensor<8x8x6x64xbf16>
    %34 = stablehlo.dot_general %33, %arg2, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x8x6x64xbf16>, tensor<8x64x128xbf16>) -> tensor<8x8x6x128xbf16>
    %35 = stablehlo.multiply %34, %34 : tensor<8x8x6x128xbf16>
    %36 = stablehlo.multiply %35, %34 : tensor<8x8x6x128xbf16>
    %cst_6 = stablehlo.constant dense<4.471500e-02> : tensor<bf16>
    %37 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<bf16>) -> tensor<8x8x6x128xbf16>
    %38 = stablehlo.multiply %37, %36 : tensor<8x8x6x128xbf16>
    %39 = stablehlo.add %34, %38 : tensor<8x8x6x128xbf16>
    %cst_7 = stablehlo.constant dense<0.797884583> : tensor<bf16>
    %40 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<bf16>) -> tensor<8x8x6x128xbf16>
    %41 = stablehlo.multiply %40, %39 : tensor<8x8x6x128xbf16>
    %42 = stablehlo.tanh %41 : tensor<8x8x6x128xbf16>
    %cst_8 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %43 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<bf16>) -> tensor<8x8x6x128xbf16>
    %44 = stablehlo.add %43, %42 : tensor<8x8x6x128xbf16>
    %cst_9 = stablehlo.constant dense<5.000000e-01> : tensor<bf16>
    %45 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<bf16>) -> tensor<8x8x6x128xbf16>
    %46 = stablehlo.multiply %45, %44 : tensor<8x8x6x128xbf16>
    %47 = stablehlo.multiply %34, %46 : tensor<8x8x6x128xbf16>
    %48 = stablehlo.dot_general %47, %arg3, batching_dims = [0] x [0], contracting_dims = [3] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x8x6x128xbf16>, tensor<8x128x64xbf16>) -> tensor<8x8x6x64xbf16>
    %49 = stablehlo.dot_general %31, %48, batching_dims = [0] x [1], contracting_dims = [3, 2] x [2, 0], precision = [DEFAULT, DEFAULT] : (tensor<8x16x8x6xbf16>, tensor<8x8x6x64xbf16>) -> tensor<8x16x64xbf16>
    return %49 : tensor<8x16x64xbf16>
  }
  func.func private @argmax(%arg0: tensor<8x16x8xbf16>) -> tensor<8x16xi32> {
    %0 = stablehlo.iota dim = 2 : tensor<8x16x8xi32>
    %cst = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [2] : (tensor<8x16x8xbf16>, tensor<8x16x8xi32>, tensor<bf16>, tensor<i32>) -> (tensor<8x16xbf16>, tensor<8x16xi32>)
     reducer(%arg1: tensor<bf16>, %arg3: tensor<bf16>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, FLOAT : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<bf16>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<bf16>, tensor<i32>
    }
    return %1#1 : tensor<8x16xi32>
  }
  func.func private @_one_hot(%arg0: tensor<8x16xi32>) -> tensor<8x16x8xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<8x16xi32>) -> tensor<8x16x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x8xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<8x16x1xi32>) -> tensor<8x16x8xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x8xi32>) -> tensor<8x16x8xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<8x16x8xi32>, tensor<8x16x8xi32>) -> tensor<8x16x8xi1>
    %5 = stablehlo.convert %4 : (tensor<8x16x8xi1>) -> tensor<8x16x8xbf16>
    return %5 : tensor<8x16x8xbf16>
  }
  func.func private @cumsum(%arg0: tensor<8x16x8xbf16>) -> tensor<8x16x8xbf16> {
    %0 = call @cumsum_0(%arg0) : (tensor<8x16x8xbf16>) -> tensor<8x16x8xbf16>
    return %0 : tensor<8x16x8xbf16>
  }
  func.func private @cumsum_0(%arg0: tensor<8x16x8xbf16>) -> tensor<8x16x8xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<bf16>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [15, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 16, 1>, window_strides = array<i64: 1, 1, 1>}> ({
    ^bb0(%arg1: tensor<bf16>, %arg2: tensor<bf16>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<bf16>
      stablehlo.return %2 : tensor<bf16>
    }) : (tensor<8x16x8xbf16>, tensor<bf16>) -> tensor<8x16x8xbf16>
    return %1 : tensor<8x16x8xbf16>
  }
  func.func private @_one_hot_1(%arg0: tensor<8x16xi32>) -> tensor<8x16x6xbf16> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<8x16xi32>) -> tensor<8x16x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x6xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<8x16x1xi32>) -> tensor<8x16x6xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x6xi32>) -> tensor<8x16x6xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<8x16x6xi32>, tensor<8x16x6xi32>) -> tensor<8x16x6xi1>
    %5 = stablehlo.convert %4 : (tensor<8x16x6xi1>) -> tensor<8x16x6xbf16>
    return %5 : tensor<8x16x6xbf16>
  }
}
