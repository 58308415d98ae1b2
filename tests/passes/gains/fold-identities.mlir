// JAX: scores of new keys after an empty cache, `jnp.concatenate([past, k])` with an empty `past`, sharded over the sequence. Without the pass
// the predicted step takes 17.5 us, with it 13 us.
// GAIN: step 1.3

module @jit_empty_cache attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["sp"=4]> {stablehlo.mesh = {axes = [{name = "sp", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<0x8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}, {}]>}, %arg1: tensor<1024x8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"sp"}, {}, {}]>}, %arg2: tensor<1024x8x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"sp"}, {}, {}]>}) -> (tensor<1024x8xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.concatenate %arg0, %arg1, dim = 0 : (tensor<0x8x64xf32>, tensor<1024x8x64xf32>) -> tensor<1024x8x64xf32>
    %1 = stablehlo.dot_general %arg2, %0, batching_dims = [0, 1] x [0, 1], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<1024x8x64xf32>, tensor<1024x8x64xf32>) -> tensor<1024x8xf32>
    return %1 : tensor<1024x8xf32>
  }
}
