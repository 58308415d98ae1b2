// JAX: a helper shifts a field one cell, another shifts the result three cells back: `jnp.roll` of `jnp.roll`. Without the pass a device sends
// 1 KiB, with it 512 bytes.
// GAIN: ring_bytes 2

module @jit_shifted_twice attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]> {stablehlo.mesh = {axes = [{name = "x", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<4096x64xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4096x64xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %0 = call @_roll_static(%arg0) : (tensor<4096x64xf32>) -> tensor<4096x64xf32>
    %1 = call @_roll_static_0(%0) : (tensor<4096x64xf32>) -> tensor<4096x64xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<4096x64xf32>
    %3 = stablehlo.multiply %1, %2 : tensor<4096x64xf32>
    return %3 : tensor<4096x64xf32>
  }
  func.func private @_roll_static(%arg0: tensor<4096x64xf32>) -> tensor<4096x64xf32> {
    %0 = stablehlo.slice %arg0 [4095:4096, 0:64] : (tensor<4096x64xf32>) -> tensor<1x64xf32>
    %1 = stablehlo.slice %arg0 [0:4095, 0:64] : (tensor<4096x64xf32>) -> tensor<4095x64xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<1x64xf32>, tensor<4095x64xf32>) -> tensor<4096x64xf32>
    return %2 : tensor<4096x64xf32>
  }
  func.func private @_roll_static_0(%arg0: tensor<4096x64xf32>) -> tensor<4096x64xf32> {
    %0 = stablehlo.slice %arg0 [3:4096, 0:64] : (tensor<4096x64xf32>) -> tensor<4093x64xf32>
    %1 = stablehlo.slice %arg0 [0:3, 0:64] : (tensor<4096x64xf32>) -> tensor<3x64xf32>
    %2 = stablehlo.concatenate %0, %1, dim = 0 : (tensor<4093x64xf32>, tensor<3x64xf32>) -> tensor<4096x64xf32>
    return %2 : tensor<4096x64xf32>
  }
}
