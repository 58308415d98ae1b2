// JAX `shard_map`: a step that applies accumulated gradients reduces six tensors of medium size separately. Without the pass the predicted
// step takes 69.8 us, with it 43.1 us.
// GAIN: step 1.6

module @jit_apply_gradients attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<256x768xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg1: tensor<256x768xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg2: tensor<256x768xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg3: tensor<256x768xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg4: tensor<256x768xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg5: tensor<256x768xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, %arg6: tensor<4x256x768xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, %arg7: tensor<4x256x768xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, %arg8: tensor<4x256x768xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, %arg9: tensor<4x256x768xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, %arg10: tensor<4x256x768xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, %arg11: tensor<4x256x768xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}) -> (tensor<256x768xf32> {jax.result_info = "result[0]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<256x768xf32> {jax.result_info = "result[1]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<256x768xf32> {jax.result_info = "result[2]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<256x768xf32> {jax.result_info = "result[3]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<256x768xf32> {jax.result_info = "result[4]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}, tensor<256x768xf32> {jax.result_info = "result[5]", sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) {
    %0:6 = sdy.manual_computation(%arg0, %arg1, %arg2, %arg3, %arg4, %arg5, %arg6, %arg7, %arg8, %arg9, %arg10, %arg11) in_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{"dp"}, {}, {}]>, <@mesh, [{"dp"}, {}, {}]>, <@mesh, [{"dp"}, {}, {}]>, <@mesh, [{"dp"}, {}, {}]>, <@mesh, [{"dp"}, {}, {}]>, <@mesh, [{"dp"}, {}, {}]>] out_shardings=[<@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>, <@mesh, [{}, {}]>] manual_axes={"dp"} (%arg12: tensor<256x768xf32>, %arg13: tensor<256x768xf32>, %arg14: tensor<256x768xf32>, %arg15: tensor<256x768xf32>, %arg16: tensor<256x768xf32>, %arg17: tensor<256x768xf32>, %arg18: tensor<1x256x768xf32>, %arg19: tensor<1x256x768xf32>, %arg20: tensor<1x256x768xf32>, %arg21: tensor<1x256x768xf32>, %arg22: tensor<1x256x768xf32>, %arg23: tensor<1x256x768xf32>) {
      %1 = stablehlo.reshape %arg18 : (tensor<1x256x768xf32>) -> tensor<256x768xf32>
      %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg24: tensor<f32>, %arg25: tensor<f32>):
        %43 = stablehlo.add %arg24, %arg25 : tensor<f32>
        stablehlo.return %43 : tensor<f32>
      }) : (tensor<256x768xf32>) -> tensor<256x768xf32>
      %cst = stablehlo.constant dense<4.000000e+00> : tensor<f32>
      %3 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<256x768xf32>
      %4 = stablehlo.divide %2, %3 : tensor<256x768xf32>
      %cst_0 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
      %5 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<256x768xf32>
      %6 = stablehlo.multiply %5, %4 : tensor<256x768xf32>
      %7 = stablehlo.subtract %arg12, %6 : tensor<256x768xf32>
      %8 = stablehlo.reshape %arg19 : (tensor<1x256x768xf32>) -> tensor<256x768xf32>
      %9 = "stablehlo.all_reduce"(%8) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg24: tensor<f32>, %arg25: tensor<f32>):
        %43 = stablehlo.add %arg24, %arg25 : tensor<f32>
        stablehlo.return %43 : tensor<f32>
      }) : (tensor<256x768xf32>) -> tensor<256x768xf32>
      %cst_1 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
      %10 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<256x768xf32>
      %11 = stablehlo.divide %9, %10 : tensor<256x768xf32>
      %cst_2 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
      %12 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<256x768xf32>
      %13 = stablehlo.multiply %12, %11 : tensor<256x768xf32>
      %14 = stablehlo.subtract %arg13, %13 : tensor<256x768xf32>
      %15 = stablehlo.reshape %arg20 : (tensor<1x256x768xf32>) -> tensor<256x768xf32>
      %16 = "stablehlo.all_reduce"(%15) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg24: tensor<f32>, %arg25: tensor<f32>):
        %43 = stablehlo.add %arg24, %arg25 : tensor<f32>
        stablehlo.return %43 : tensor<f32>
      }) : (tensor<256x768xf32>) -> tensor<256x768xf32>
      %cst_3 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
      %17 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<256x768xf32>
      %18 = stablehlo.divide %16, %17 : tensor<256x768xf32>
      %cst_4 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
      %19 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<256x768xf32>
      %20 = stablehlo.multiply %19, %18 : tensor<256x768xf32>
      %21 = stablehlo.subtract %arg14, %20 : tensor<256x768xf32>
      %22 = stablehlo.reshape %arg21 : (tensor<1x256x768xf32>) -> tensor<256x768xf32>
      %23 = "stablehlo.all_reduce"(%22) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg24: tensor<f32>, %arg25: tensor<f32>):
        %43 = stablehlo.add %arg24, %arg25 : tensor<f32>
        stablehlo.return %43 : tensor<f32>
      }) : (tensor<256x768xf32>) -> tensor<256x768xf32>
      %cst_5 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
      %24 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<256x768xf32>
      %25 = stablehlo.divide %23, %24 : tensor<256x768xf32>
      %cst_6 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
      %26 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<256x768xf32>
      %27 = stablehlo.multiply %26, %25 : tensor<256x768xf32>
      %28 = stablehlo.subtract %arg15, %27 : tensor<256x768xf32>
      %29 = stablehlo.reshape %arg22 : (tensor<1x256x768xf32>) -> tensor<256x768xf32>
      %30 = "stablehlo.all_reduce"(%29) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg24: tensor<f32>, %arg25: tensor<f32>):
        %43 = stablehlo.add %arg24, %arg25 : tensor<f32>
        stablehlo.return %43 : tensor<f32>
      }) : (tensor<256x768xf32>) -> tensor<256x768xf32>
      %cst_7 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
      %31 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<256x768xf32>
      %32 = stablehlo.divide %30, %31 : tensor<256x768xf32>
      %cst_8 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
      %33 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<256x768xf32>
      %34 = stablehlo.multiply %33, %32 : tensor<256x768xf32>
      %35 = stablehlo.subtract %arg16, %34 : tensor<256x768xf32>
      %36 = stablehlo.reshape %arg23 : (tensor<1x256x768xf32>) -> tensor<256x768xf32>
      %37 = "stablehlo.all_reduce"(%36) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg24: tensor<f32>, %arg25: tensor<f32>):
        %43 = stablehlo.add %arg24, %arg25 : tensor<f32>
        stablehlo.return %43 : tensor<f32>
      }) : (tensor<256x768xf32>) -> tensor<256x768xf32>
      %cst_9 = stablehlo.constant dense<4.000000e+00> : tensor<f32>
      %38 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<256x768xf32>
      %39 = stablehlo.divide %37, %38 : tensor<256x768xf32>
      %cst_10 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
      %40 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<256x768xf32>
      %41 = stablehlo.multiply %40, %39 : tensor<256x768xf32>
      %42 = stablehlo.subtract %arg17, %41 : tensor<256x768xf32>
      sdy.return %7, %14, %21, %28, %35, %42 : tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>
    } : (tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<4x256x768xf32>, tensor<4x256x768xf32>, tensor<4x256x768xf32>, tensor<4x256x768xf32>, tensor<4x256x768xf32>, tensor<4x256x768xf32>) -> (tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>)
    return %0#0, %0#1, %0#2, %0#3, %0#4, %0#5 : tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>, tensor<256x768xf32>
  }
}
