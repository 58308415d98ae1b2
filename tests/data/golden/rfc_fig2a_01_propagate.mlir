builtin.module attributes {meshgen.stage = "propagate"} {
  shard.grid @mesh0(shape = 2)
  func.func public @mlp_1d_weight_stationary(%arg0: tensor<2x4x8xf32> {meshgen.sharding = #meshgen.annotation<@mesh0, [[], [], [0]]>, meshgen.layout = #meshgen.split<@mesh0, [[], [], [0]]>}, %arg1: tensor<8x32xf32> {meshgen.layout = #meshgen.split<@mesh0, [[], [0]]>}, %arg2: tensor<32x8xf32> {meshgen.layout = #meshgen.split<@mesh0, [[0], []]>}) -> (tensor<2x4x8xf32> {meshgen.sharding = #meshgen.annotation<@mesh0, [[], [], [0]]>, meshgen.layout = #meshgen.split<@mesh0, [[], [], [0]]>}) {
    %sharding = shard.sharding @mesh0 split_axes = [[], [], [0]] : !shard.sharding
    %0 = shard.shard %arg0 to %sharding {meshgen.plan = #meshgen.plan<([[], [], [0]]) -> ([[], [], [0]]), loops = [[], [], [0]], why = ["0 splits loop c (8) from required annotation [{}, {}, {0}] of input %arg0 (rfc_fig2a.mlir:4)"]>} : tensor<2x4x8xf32>
    %1 = stablehlo.dot_general %0, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] {meshgen.plan = #meshgen.plan<([[], [], []], [[], [0]]) -> ([[], [], [0]]), loops = [[], [], [0], []], why = ["0 splits loop c (32) from required annotation [{}, {}, {}] partial sum(0) of value %5 (rfc_fig2a.mlir:17); 1 other choice would move more"]>} : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
    %2 = stablehlo.constant {meshgen.plan = #meshgen.plan<() -> ([[], [], [0]]), loops = [[], [], [0]]>} dense<0.000000e+00> : tensor<2x4x32xf32>
    %3 = stablehlo.maximum %1, %2 {meshgen.plan = #meshgen.plan<([[], [], [0]], [[], [], [0]]) -> ([[], [], [0]]), loops = [[], [], [0]], why = ["0 splits loop c (32) from required annotation [{}, {}, {}] partial sum(0) of value %5 (rfc_fig2a.mlir:17)"]>} : tensor<2x4x32xf32>
    %4 = stablehlo.dot_general %3, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] {meshgen.plan = #meshgen.plan<([[], [], [0]], [[0], []]) -> ([[], [], []] partial = sum[0]), loops = [[], [], [], [0]], why = ["0 splits loop d (32, summed) from required annotation [{}, {}, {}] partial sum(0) of value %5 (rfc_fig2a.mlir:17); 1 other choice would move more"]>} : (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
    %sharding_0 = shard.sharding @mesh0 split_axes = [[], [], []] partial = sum[0] : !shard.sharding
    %5 = shard.shard %4 to %sharding_0 {meshgen.plan = #meshgen.plan<([[], [], []] partial = sum[0]) -> ([[], [], []] partial = sum[0]), loops = 3, why = ["0 stays partial (sum) from required annotation [{}, {}, {}] partial sum(0) of value %5 (rfc_fig2a.mlir:17); 1 other choice would move more"]>} : tensor<2x4x8xf32>
    %sharding_1 = shard.sharding @mesh0 split_axes = [[], [], [0]] : !shard.sharding
    %6 = shard.shard %5 to %sharding_1 annotate_for_users {meshgen.plan = #meshgen.plan<([[], [], [0]]) -> ([[], [], [0]]), loops = [[], [], [0]], why = ["0 splits loop c (8) from required annotation [{}, {}, {0}] of value %6 (rfc_fig2a.mlir:18); 1 other choice would move more"]>} : tensor<2x4x8xf32>
    func.return %6 : tensor<2x4x8xf32>
  }
}
