// JAX `shard_map`: fully sharded bf16 parameters are cast to f32 and gathered for use. Without the pass a device sends 768 KiB, with it 384
// KiB.
// GAIN: ring_bytes 2

module @jit_fsdp_layer attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=4]> {stablehlo.mesh = {axes = [{name = "dp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<64x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}, %arg1: tensor<512x512xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}]>}) -> (tensor<64x512xf32> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{"dp"}, {}]>, <@mesh, [{"dp"}, {}]>] out_shardings=[<@mesh, [{"dp"}, {}]>] manual_axes={"dp"} (%arg2: tensor<16x512xf32>, %arg3: tensor<128x512xbf16>) {
      %1 = stablehlo.convert %arg3 : (tensor<128x512xbf16>) -> tensor<128x512xf32>
      %2 = "stablehlo.all_gather"(%1) <{all_gather_dim = 0 : i64, channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> : (tensor<128x512xf32>) -> tensor<512x512xf32>
      %3 = stablehlo.dot_general %arg2, %2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x512xf32>, tensor<512x512xf32>) -> tensor<16x512xf32>
      sdy.return %3 : tensor<16x512xf32>
    } : (tensor<64x512xf32>, tensor<512x512xbf16>) -> tensor<64x512xf32>
    return %0 : tensor<64x512xf32>
  }
}
