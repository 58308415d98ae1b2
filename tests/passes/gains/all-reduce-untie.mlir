// A second moment minus a squared mean, as written for one device: both are summed over devices, the second after the first. Without the pass
// the predicted step takes 18.0 us, with it 10.0 us.
// GAIN: step 1.7

shard.grid @g(shape = 4) {axis_names = ["x"]}
func.func @moments(%q: tensor<256xf32>, %s: tensor<256xf32>) -> (tensor<256xf32>, tensor<256xf32>) {
  %m = shard.all_reduce %q on @g grid_axes = [0] : tensor<256xf32> -> tensor<256xf32>
  %t = stablehlo.multiply %q, %m : tensor<256xf32>
  %u = stablehlo.subtract %s, %t : tensor<256xf32>
  %r = shard.all_reduce %u on @g grid_axes = [0] : tensor<256xf32> -> tensor<256xf32>
  return %m, %r : tensor<256xf32>, tensor<256xf32>
}
