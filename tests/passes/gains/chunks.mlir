// JAX `shard_map`: a row-parallel layer of 8192 rows and columns with an exposed reduction. Without the pass the predicted step takes 936 us,
// with it 658 us.
// GAIN: step 1.4

module @jit_row_parallel attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["tp"=4]> {stablehlo.mesh = {axes = [{name = "tp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<8192x8192xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"tp"}]>}, %arg1: tensor<8192x8192xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {}]>}) -> (tensor<8192x8192xbf16> {jax.result_info = "result"}) {
    %0 = sdy.manual_computation(%arg0, %arg1) in_shardings=[<@mesh, [{}, {"tp"}]>, <@mesh, [{"tp"}, {}]>] out_shardings=[<@mesh, [{}, {}]>] manual_axes={"tp"} (%arg2: tensor<8192x2048xbf16>, %arg3: tensor<2048x8192xbf16>) {
      %1 = stablehlo.dot_general %arg2, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8192x2048xbf16>, tensor<2048x8192xbf16>) -> tensor<8192x8192xbf16>
      %2 = "stablehlo.all_reduce"(%1) <{channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>, replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>, use_global_device_ids}> ({
      ^bb0(%arg4: tensor<bf16>, %arg5: tensor<bf16>):
        %3 = stablehlo.add %arg4, %arg5 : tensor<bf16>
        stablehlo.return %3 : tensor<bf16>
      }) : (tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
      sdy.return %2 : tensor<8192x8192xbf16>
    } : (tensor<8192x8192xbf16>, tensor<8192x8192xbf16>) -> tensor<8192x8192xbf16>
    return %0 : tensor<8192x8192xbf16>
  }
}
