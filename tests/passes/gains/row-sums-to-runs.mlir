// The gradients of an RMS norm's input and of its weights. Without the pass a separate kernel reads the summed rows again: 70 us and 168 MB
// instead of 52 us and 138 MB.
// GAIN: step 1.3

module @norm_gradients {
  sdy.mesh @mesh = <["dp"=2]>
  func.func public @main(%x: tensor<8x512x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, %w: tensor<4096xf32>, %dy: tensor<8x512x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, %around: tensor<8x512x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}) -> (tensor<8x512x4096xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"dp"}, {}, {}]>}, tensor<4096xf32>) {
    %zero = stablehlo.constant dense<0.0> : tensor<f32>
    %size = stablehlo.constant dense<4096.0> : tensor<8x512xf32>
    %eps = stablehlo.constant dense<1.0e-5> : tensor<8x512xf32>
    %xx = stablehlo.multiply %x, %x : tensor<8x512x4096xf32>
    %sum = stablehlo.reduce(%xx init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x512x4096xf32>, tensor<f32>) -> tensor<8x512xf32>
    %mean = stablehlo.divide %sum, %size : tensor<8x512xf32>
    %square = stablehlo.add %mean, %eps : tensor<8x512xf32>
    %root = stablehlo.rsqrt %square : tensor<8x512xf32>
    %scale = stablehlo.broadcast_in_dim %root, dims = [0, 1] : (tensor<8x512xf32>) -> tensor<8x512x4096xf32>
    %normal = stablehlo.multiply %x, %scale : tensor<8x512x4096xf32>
    %g = stablehlo.multiply %dy, %normal : tensor<8x512x4096xf32>
    %dw = stablehlo.reduce(%g init: %zero) applies stablehlo.add across dimensions = [0, 1] : (tensor<8x512x4096xf32>, tensor<f32>) -> tensor<4096xf32>
    %wide = stablehlo.broadcast_in_dim %w, dims = [2] : (tensor<4096xf32>) -> tensor<8x512x4096xf32>
    %inner = stablehlo.multiply %dy, %wide : tensor<8x512x4096xf32>
    %both = stablehlo.multiply %inner, %normal : tensor<8x512x4096xf32>
    %dots = stablehlo.reduce(%both init: %zero) applies stablehlo.add across dimensions = [2] : (tensor<8x512x4096xf32>, tensor<f32>) -> tensor<8x512xf32>
    %part = stablehlo.divide %dots, %size : tensor<8x512xf32>
    %parts = stablehlo.broadcast_in_dim %part, dims = [0, 1] : (tensor<8x512xf32>) -> tensor<8x512x4096xf32>
    %along = stablehlo.multiply %normal, %parts : tensor<8x512x4096xf32>
    %rest = stablehlo.subtract %inner, %along : tensor<8x512x4096xf32>
    %dx = stablehlo.multiply %rest, %scale : tensor<8x512x4096xf32>
    %sums = stablehlo.add %dx, %around : tensor<8x512x4096xf32>
    return %sums, %dw : tensor<8x512x4096xf32>, tensor<4096xf32>
  }
}
