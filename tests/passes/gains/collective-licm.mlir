// JAX `shard_map`: a recurrent net gathers its sharded weight in the body of its `scan`. Without the pass a device sends 72 MiB, with it 12
// MiB.
// GAIN: ring_bytes 6

module @jit_recurrent attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<16x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}, %arg1: tensor<2048x2048xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<16x2048xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"dp"}, {}]>, <@mesh, [{"dp"}, {}]>] out_shardings=[<@mesh, [{"dp"}, {}]>] manual_axes={"dp"} (%arg2: tensor<4x2048xf32>, %arg3: tensor<512x2048xf32>) {
      %c = stablehlo.constant dense<0> : tensor<i32>
      %1:3 = stablehlo.while(%iterArg = %arg3, %iterArg_0 = %c, %iterArg_1 = %arg2) : tensor<512x2048xf32>, tensor<i32>, tensor<4x2048xf32>
      cond {
        %c_2 = stablehlo.constant dense<6> : tensor<i32>
        %2 = stablehlo.compare LT, %iterArg_0, %c_2, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %2 : tensor<i1>
      } do {
        %2 = func.call @closed_call(%iterArg, %iterArg_1) : (tensor<512x2048xf32>, tensor<4x2048xf32>) -> tensor<4x2048xf32>
        %c_2 = stablehlo.constant dense<1> : tensor<i32>
        %3 = stablehlo.add %iterArg_0, %c_2 : tensor<i32>
        stablehlo.return %iterArg, %3, %2 : tensor<512x2048xf32>, tensor<i32>, tensor<4x2048xf32>
      }
      sdy.return %1#2 : tensor<4x2048xf32>
    } : (tensor<16x2048xf32>, tensor<2048x2048xf32>) -> tensor<16x2048xf32>
    return %0 : tensor<16x2048xf32>
  }
  func.func private @closed_call(%arg0: tensor<512x2048xf32>, %arg1: tensor<4x2048xf32>) -> tensor<4x2048xf32> {
    %0 = "stablehlo.all_gather"(%arg0) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<512x2048xf32>) -> tensor<2048x2048xf32>
    %1 = stablehlo.dot_general %arg1, %0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<4x2048xf32>, tensor<2048x2048xf32>) -> tensor<4x2048xf32>
    %2 = stablehlo.tanh %1 : tensor<4x2048xf32>
    return %2 : tensor<4x2048xf32>
  }
}
