module @jit__lambda attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["h"=8]> {stablehlo.mesh = {axes = [{name = "h", size = 8 : i64}]}}
  func.func public @main(%arg0: tensor<8x8x32x32xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"h"}, {}]>}, %arg1: tensor<8x8x3x3xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}, {}]>}) -> (tensor<8x8x32x32xbf16> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {"h"}, {}]>}) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<8x8x32x32xbf16>, tensor<8x8x3x3xbf16>) -> tensor<8x8x32x32xbf16>
    %1 = call @relu(%0) : (tensor<8x8x32x32xbf16>) -> tensor<8x8x32x32xbf16>
    return %1 : tensor<8x8x32x32xbf16>
  }
  func.func private @relu(%arg0: tensor<8x8x32x32xbf16>) -> tensor<8x8x32x32xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<8x8x32x32xbf16>
    %1 = stablehlo.maximum %arg0, %0 : tensor<8x8x32x32xbf16>
    return %1 : tensor<8x8x32x32xbf16>
  }
}
