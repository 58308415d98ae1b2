builtin.module attributes {meshgen.stage = "import"} {
  shard.grid @mesh0(shape = 2)
  func.func public @mlp_1d_weight_stationary(%arg0: tensor<2x4x8xf32> {meshgen.sharding = #meshgen.annotation<@mesh0, [[], [], [0]]>}, %arg1: tensor<8x32xf32>, %arg2: tensor<32x8xf32>) -> (tensor<2x4x8xf32> {meshgen.sharding = #meshgen.annotation<@mesh0, [[], [], [0]]>}) {
    %sharding = shard.sharding @mesh0 split_axes = [[], [], [0]] : !shard.sharding
    %0 = shard.shard %arg0 to %sharding : tensor<2x4x8xf32>
    %1 = stablehlo.dot_general %0, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4x8xf32>, tensor<8x32xf32>) -> tensor<2x4x32xf32>
    %2 = stablehlo.constant dense<0.000000e+00> : tensor<2x4x32xf32>
    %3 = stablehlo.maximum %1, %2 : tensor<2x4x32xf32>
    %4 = stablehlo.dot_general %3, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4x32xf32>, tensor<32x8xf32>) -> tensor<2x4x8xf32>
    %sharding_0 = shard.sharding @mesh0 split_axes = [[], [], []] partial = sum[0] : !shard.sharding
    %5 = shard.shard %4 to %sharding_0 : tensor<2x4x8xf32>
    %sharding_1 = shard.sharding @mesh0 split_axes = [[], [], [0]] : !shard.sharding
    %6 = shard.shard %5 to %sharding_1 annotate_for_users : tensor<2x4x8xf32>
    func.return %6 : tensor<2x4x8xf32>
  }
}
