// JAX: a library constrains its result to rows over `dp`, the next one its argument to columns over `tp`; the caller needs neither. Without
// the pass a device sends 512 KiB, with it 128 KiB.
// GAIN: ring_bytes 4

module @jit_constrained_twice attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["dp"=4, "tp"=2]> {stablehlo.mesh = {axes = [{name = "dp", size = 4 : i64}, {name = "tp", size = 2 : i64}]}}
  func.func public @main(%arg0: tensor<512x512xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {"tp"}]>}) -> (tensor<512x512xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"tp"}, {"dp"}]>}) {
    %0 = sdy.sharding_constraint %arg0 <@mesh, [{"dp"}, {}]> : tensor<512x512xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {"tp"}]> : tensor<512x512xf32>
    return %1 : tensor<512x512xf32>
  }
}
