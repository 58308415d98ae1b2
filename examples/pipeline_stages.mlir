// Two pipeline stages on meshes of different sizes: the first layer on four devices, the second on three.
// meshgen check examples/pipeline_stages.mlir
shard.grid @stage0(shape = 2x2) {axis_names = ["dp", "tp"]}
shard.grid @stage1(shape = 3) {axis_names = ["dp"]}

func.func @main(%x: tensor<20x64xf32>, %w0: tensor<64x96xf32>, %w1: tensor<96x32xf32>) -> tensor<20x32xf32> {
  // The input and the first weight lie on stage 0; what is computed from them stays there.
  %rows = shard.sharding @stage0 split_axes = [[0], []] : !shard.sharding
  %x0 = shard.shard %x to %rows : tensor<20x64xf32>
  %columns = shard.sharding @stage0 split_axes = [[], [1]] : !shard.sharding
  %w0s = shard.shard %w0 to %columns : tensor<64x96xf32>
  %h = stablehlo.dot_general %x0, %w0s, contracting_dims = [1] x [0] : (tensor<20x64xf32>, tensor<64x96xf32>) -> tensor<20x96xf32>
  %t = stablehlo.tanh %h : tensor<20x96xf32>

  // Here the activations cross. The second weight is not annotated: it lies where it is used.
  %there = shard.sharding @stage1 split_axes = [[0], []] : !shard.sharding
  %t1 = shard.shard %t to %there : tensor<20x96xf32>
  %y = stablehlo.dot_general %t1, %w1, contracting_dims = [1] x [0] : (tensor<20x96xf32>, tensor<96x32xf32>) -> tensor<20x32xf32>
  return %y : tensor<20x32xf32>
}
