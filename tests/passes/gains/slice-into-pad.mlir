// JAX: second differences of a zero-padded field, written as slices of `jnp.pad(x, 1)`. Without the pass a device sends 5 KiB, with it 2 KiB.
// GAIN: ring_bytes 2.5
// NUMBERS: 256=16

module @jit_bounded_stencil attributes {mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=4]> {stablehlo.mesh = {axes = [{name = "x", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<2048x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<2048x256xf32> {jax.result_info = "result", sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = call @_pad(%arg0, %c) : (tensor<2048x256xf32>, tensor<i32>) -> tensor<2050x256xf32>
    %1 = stablehlo.slice %0 [2:2050, 0:256] : (tensor<2050x256xf32>) -> tensor<2048x256xf32>
    %cst = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2048x256xf32>
    %3 = stablehlo.multiply %2, %arg0 : tensor<2048x256xf32>
    %4 = stablehlo.subtract %1, %3 : tensor<2048x256xf32>
    %5 = stablehlo.slice %0 [0:2048, 0:256] : (tensor<2050x256xf32>) -> tensor<2048x256xf32>
    %6 = stablehlo.add %4, %5 : tensor<2048x256xf32>
    return %6 : tensor<2048x256xf32>
  }
  func.func private @_pad(%arg0: tensor<2048x256xf32>, %arg1: tensor<i32>) -> tensor<2050x256xf32> {
    %0 = stablehlo.convert %arg1 : (tensor<i32>) -> tensor<f32>
    %1 = stablehlo.pad %arg0, %0, low = [1, 0], high = [1, 0], interior = [0, 0] : (tensor<2048x256xf32>, tensor<f32>) -> tensor<2050x256xf32>
    return %1 : tensor<2050x256xf32>
  }
}
