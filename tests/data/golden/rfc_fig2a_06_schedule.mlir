builtin.module attributes {meshgen.stage = "schedule"} {
  shard.grid @mesh0(shape = 2)
  func.func public @mlp_1d_weight_stationary(%arg0: tensor<2x4x4xf32> {meshgen.sharding = #meshgen.annotation<@mesh0, [[], [], [0]]>, meshgen.layout = #meshgen.split<@mesh0, [[], [], [0]]>, meshgen.global = tensor<2x4x8xf32>}, %arg1: tensor<8x16xf32> {meshgen.layout = #meshgen.split<@mesh0, [[], [0]]>, meshgen.global = tensor<8x32xf32>}, %arg2: tensor<16x8xf32> {meshgen.layout = #meshgen.split<@mesh0, [[0], []]>, meshgen.global = tensor<32x8xf32>}) -> (tensor<2x4x4xf32> {meshgen.sharding = #meshgen.annotation<@mesh0, [[], [], [0]]>, meshgen.layout = #meshgen.split<@mesh0, [[], [], [0]]>, meshgen.global = tensor<2x4x8xf32>}) {
    %arg0_gathered = shard.all_gather %arg0 on @mesh0 grid_axes = [0] gather_axis = 2 {why = "annotated input 'arg0' (rfc_fig2a.mlir:3) gives [{}, {}, {0}], dot_general '1' (rfc_fig2a.mlir:5) needs [{}, {}, {}]; dot_general '1': 0 splits loop c (32) from required annotation [{}, {}, {}] partial sum(0) of value %5 (rfc_fig2a.mlir:17); 1 other choice would move more", edges = array<i64: 0>, sched.item = #sched.item<stream 1 records = 0 seconds = "8.000345945945945e-06" start = "0.0" hidden = "0.0" exposed = "8.000345946e-06" source = "rfc_fig2a.mlir:5">, sched.buffers = [#sched.buffer<3 "arg0_gathered" temporary storage = 3 offset = 1792 source = "rfc_fig2a.mlir:5">]} : tensor<2x4x4xf32> -> tensor<2x4x8xf32>
    %3 = func.call @dot_maximum(%arg0_gathered, %arg1) {sched.item = #sched.item<stream 0 waits = [0] seconds = "2.894599880597015e-06" start = "8.000345945945945e-06" source = "rfc_fig2a.mlir:11">, sched.buffers = [#sched.buffer<4 "3" temporary storage = 4 offset = 1280 source = "rfc_fig2a.mlir:11">]} : (tensor<2x4x8xf32>, tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %4 = func.call @dot_2(%3, %arg2) {sched.item = #sched.item<stream 0 records = 1 seconds = "2.890216888888889e-06" start = "1.0894945826542959e-05" source = "rfc_fig2a.mlir:12">, sched.buffers = [#sched.buffer<5 "4" temporary storage = 5 offset = 1792 source = "rfc_fig2a.mlir:12">]} : (tensor<2x4x16xf32>, tensor<16x8xf32>) -> tensor<2x4x8xf32>
    %v4_scattered = shard.reduce_scatter %4 on @mesh0 grid_axes = [0] scatter_axis = 2 {why = "dot_general '4' (rfc_fig2a.mlir:12) gives [{}, {}, {}] partial sum(0), annotation '6' (rfc_fig2a.mlir:18) needs [{}, {}, {0}]; dot_general '4': 0 splits loop d (32, summed) from required annotation [{}, {}, {}] partial sum(0) of value %5 (rfc_fig2a.mlir:17); 1 other choice would move more; annotation '6': 0 splits loop c (8) from required annotation [{}, {}, {0}] of value %6 (rfc_fig2a.mlir:18); 1 other choice would move more", edges = array<i64: 1>, sched.item = #sched.item<stream 1 waits = [1] seconds = "8.000345945945945e-06" start = "1.3785162715431848e-05" hidden = "0.0" exposed = "8.000345946e-06" source = "rfc_fig2a.mlir:18">, sched.buffers = [#sched.buffer<6 "v4_scattered" output storage = 6 offset = 1280 source = "rfc_fig2a.mlir:18">]} : tensor<2x4x8xf32> -> tensor<2x4x4xf32>
    func.return %v4_scattered : tensor<2x4x4xf32>
  }
  func.func private @dot_maximum(%arg0_gathered: tensor<2x4x8xf32>, %arg1: tensor<8x16xf32>) -> tensor<2x4x16xf32> attributes {meshgen.kernel = "dot"} {
    %1 = stablehlo.dot_general %arg0_gathered, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4x8xf32>, tensor<8x16xf32>) -> tensor<2x4x16xf32>
    %2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<f32>) -> tensor<2x4x16xf32>
    %3 = stablehlo.maximum %1, %0 : tensor<2x4x16xf32>
    func.return %3 : tensor<2x4x16xf32>
  }
  func.func private @dot_2(%3: tensor<2x4x16xf32>, %arg2: tensor<16x8xf32>) -> tensor<2x4x8xf32> attributes {meshgen.kernel = "dot"} {
    %4 = stablehlo.dot_general %3, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4x16xf32>, tensor<16x8xf32>) -> tensor<2x4x8xf32>
    func.return %4 : tensor<2x4x8xf32>
  }
}
