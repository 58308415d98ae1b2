// JAX: a conjugate gradient step on a grid that is sharded along both dims; `jnp.vdot` flattens the grid. Without the pass a device sends 48
// KiB, with it 14 bytes.
// GAIN: ring_bytes 3511

module @jit_conjugate_gradients attributes {mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2, "y"=4]> {stablehlo.mesh = {axes = [{name = "x", size = 2 : i64}, {name = "y", size = 4 : i64}]}}
  func.func public @main(%arg0: tensor<256x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}, %arg1: tensor<256x256xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {"y"}]>}) -> (tensor<256x256xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.reshape %arg0 : (tensor<256x256xf32>) -> tensor<65536xf32>
    %1 = stablehlo.reshape %arg0 : (tensor<256x256xf32>) -> tensor<65536xf32>
    %2 = stablehlo.dot_general %0, %1, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<f32>
    %3 = stablehlo.reshape %arg1 : (tensor<256x256xf32>) -> tensor<65536xf32>
    %4 = stablehlo.reshape %arg0 : (tensor<256x256xf32>) -> tensor<65536xf32>
    %5 = stablehlo.dot_general %3, %4, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<65536xf32>, tensor<65536xf32>) -> tensor<f32>
    %6 = stablehlo.divide %2, %5 : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<f32>) -> tensor<256x256xf32>
    %8 = stablehlo.multiply %7, %arg1 : tensor<256x256xf32>
    %9 = stablehlo.subtract %arg0, %8 : tensor<256x256xf32>
    return %9 : tensor<256x256xf32>
  }
}
