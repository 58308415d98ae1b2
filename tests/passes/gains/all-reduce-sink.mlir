// JAX `shard_map`: a row-parallel layer reduces its result before a router of 16 columns reads it. Without the pass a device sends 768 KiB,
// with it 24 KiB.
// GAIN: ring_bytes 32

module @jit_routed attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["tp"=4]> {stablehlo.mesh = {axes = [{name = "tp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<256x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}, %arg1: tensor<256x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}, %arg2: tensor<512x16xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}]>}) -> (tensor<256x16xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0, %arg1, %arg2) in_shardings=[<@mesh, [{}, {"tp"}]>, <@mesh, [{"tp"}, {}]>, <@mesh, [{}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"tp"} (%arg3: tensor<256x64xf32>, %arg4: tensor<64x512xf32>, %arg5: tensor<512x16xf32>) {
      %1 = stablehlo.dot_general %arg3, %arg4, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<256x64xf32>, tensor<64x512xf32>) -> tensor<256x512xf32>
      %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
        %4 = stablehlo.add %arg6, %arg7 : tensor<f32>
        stablehlo.return %4 : tensor<f32>
      }) : (tensor<256x512xf32>) -> tensor<256x512xf32>
      %3 = stablehlo.dot_general %2, %arg5, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<256x512xf32>, tensor<512x16xf32>) -> tensor<256x16xf32>
      sdy.return %3 : tensor<256x16xf32>
    } : (tensor<256x256xf32>, tensor<256x512xf32>, tensor<512x16xf32>) -> tensor<256x16xf32>
    return %0 : tensor<256x16xf32>
  }
}
