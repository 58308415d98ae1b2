// JAX `shard_map`: gradients accumulated over 4 micro-batches in a `scan`, and reduced in each iteration. Without the pass a device sends 96
// MiB, with it 24 MiB.
// GAIN: ring_bytes 4
// NUMBERS: 2048=64

module @jit_accumulated_gradient attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<4x32x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"dp"}, {}]>}, %arg1: tensor<2048x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> (tensor<2048x2048xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{}, {"dp"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"dp"} (%arg2: tensor<4x8x2048xf32>, %arg3: tensor<2048x2048xf32>) {
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2048x2048xf32>
      %c = stablehlo.constant dense<0> : tensor<i32>
      %2:4 = stablehlo.while(%iterArg = %arg2, %iterArg_0 = %arg3, %iterArg_1 = %c, %iterArg_2 = %1) : tensor<4x8x2048xf32>, tensor<2048x2048xf32>, tensor<i32>, tensor<2048x2048xf32>
      cond {
        %c_3 = stablehlo.constant dense<4> : tensor<i32>
        %3 = stablehlo.compare LT, %iterArg_1, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %3 : tensor<i1>
      } do {
        %3 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_1) : (tensor<4x8x2048xf32>, tensor<i32>) -> tensor<8x2048xf32>
        %4 = func.call @closed_call(%iterArg_0, %iterArg_2, %3) : (tensor<2048x2048xf32>, tensor<2048x2048xf32>, tensor<8x2048xf32>) -> tensor<2048x2048xf32>
        %c_3 = stablehlo.constant dense<1> : tensor<i32>
        %5 = stablehlo.add %iterArg_1, %c_3 : tensor<i32>
        stablehlo.return %iterArg, %iterArg_0, %5, %4 : tensor<4x8x2048xf32>, tensor<2048x2048xf32>, tensor<i32>, tensor<2048x2048xf32>
      }
      sdy.return %2#3 : tensor<2048x2048xf32>
    } : (tensor<4x32x2048xf32>, tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    return %0 : tensor<2048x2048xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<4x8x2048xf32>, %arg1: tensor<i32>) -> tensor<8x2048xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 8, 2048] : (tensor<4x8x2048xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x8x2048xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x8x2048xf32>) -> tensor<8x2048xf32>
    return %1 : tensor<8x2048xf32>
  }
  func.func private @closed_call(%arg0: tensor<2048x2048xf32>, %arg1: tensor<2048x2048xf32>, %arg2: tensor<8x2048xf32>) -> tensor<2048x2048xf32> {
    %0 = stablehlo.dot_general %arg2, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x2048xf32>, tensor<2048x2048xf32>) -> tensor<8x2048xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<8x2048xf32>
    %2 = stablehlo.multiply %1, %0 : tensor<8x2048xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x2048xf32>
    %4 = stablehlo.multiply %3, %2 : tensor<8x2048xf32>
    %5 = stablehlo.dot_general %4, %arg2, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x2048xf32>, tensor<8x2048xf32>) -> tensor<2048x2048xf32>
    %6 = stablehlo.transpose %5, dims = [1, 0] : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    %7 = "stablehlo.all_reduce"(%6) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
    ^bb0(%arg3: tensor<f32>, %arg4: tensor<f32>):
      %9 = stablehlo.add %arg3, %arg4 : tensor<f32>
      stablehlo.return %9 : tensor<f32>
    }) : (tensor<2048x2048xf32>) -> tensor<2048x2048xf32>
    %8 = stablehlo.add %arg1, %7 : tensor<2048x2048xf32>
    return %8 : tensor<2048x2048xf32>
  }
}
