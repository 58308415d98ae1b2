builtin.module attributes {meshgen.stage = "partition"} {
  shard.grid @mesh0(shape = 2)
  func.func public @mlp_1d_weight_stationary(%arg0: tensor<2x4x4xf32> {meshgen.sharding = #meshgen.annotation<@mesh0, [[], [], [0]]>, meshgen.layout = #meshgen.split<@mesh0, [[], [], [0]]>, meshgen.global = tensor<2x4x8xf32>}, %arg1: tensor<8x16xf32> {meshgen.layout = #meshgen.split<@mesh0, [[], [0]]>, meshgen.global = tensor<8x32xf32>}, %arg2: tensor<16x8xf32> {meshgen.layout = #meshgen.split<@mesh0, [[0], []]>, meshgen.global = tensor<32x8xf32>}) -> (tensor<2x4x4xf32> {meshgen.sharding = #meshgen.annotation<@mesh0, [[], [], [0]]>, meshgen.layout = #meshgen.split<@mesh0, [[], [], [0]]>, meshgen.global = tensor<2x4x8xf32>}) {
    %arg0_gathered = shard.all_gather %arg0 on @mesh0 grid_axes = [0] gather_axis = 2 {why = "annotated input 'arg0' (rfc_fig2a.mlir:3) gives [{}, {}, {0}], dot_general '1' (rfc_fig2a.mlir:5) needs [{}, {}, {}]; dot_general '1': 0 splits loop c (32) from required annotation [{}, {}, {}] partial sum(0) of value %5 (rfc_fig2a.mlir:17); 1 other choice would move more", edges = array<i64: 0>} : tensor<2x4x4xf32> -> tensor<2x4x8xf32>
    %1 = stablehlo.dot_general %arg0_gathered, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4x8xf32>, tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %2 = stablehlo.constant dense<0.000000e+00> : tensor<2x4x16xf32>
    %3 = stablehlo.maximum %1, %2 : tensor<2x4x16xf32>
    %4 = stablehlo.dot_general %3, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4x16xf32>, tensor<16x8xf32>) -> tensor<2x4x8xf32>
    %v4_scattered = shard.reduce_scatter %4 on @mesh0 grid_axes = [0] scatter_axis = 2 {why = "dot_general '4' (rfc_fig2a.mlir:12) gives [{}, {}, {}] partial sum(0), annotation '6' (rfc_fig2a.mlir:18) needs [{}, {}, {0}]; dot_general '4': 0 splits loop d (32, summed) from required annotation [{}, {}, {}] partial sum(0) of value %5 (rfc_fig2a.mlir:17); 1 other choice would move more; annotation '6': 0 splits loop c (8) from required annotation [{}, {}, {0}] of value %6 (rfc_fig2a.mlir:18); 1 other choice would move more", edges = array<i64: 1>} : tensor<2x4x8xf32> -> tensor<2x4x4xf32>
    func.return %v4_scattered : tensor<2x4x4xf32>
  }
}
