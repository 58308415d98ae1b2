// A moving average of 256 rows, with stacked sums of squares and a sum of columns as in a gradient. With launches per iteration the predicted
// step takes 1.55 ms; with one kernel for the loop, and one for the sums of columns, 0.06 ms.
// GAIN: step 10
// NUMBERS: 256=32

module @average {
  sdy.mesh @mesh = <["x"=2]>
  func.func @main(%x: tensor<256x64x32xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>}) -> (tensor<256x64xf32>, tensor<32xf32>) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %none = stablehlo.constant dense<0.0> : tensor<64x32xf32>
    %empty = stablehlo.constant dense<0.0> : tensor<256x64xf32>
    %nothing = stablehlo.constant dense<0.0> : tensor<32xf32>
    %r:4 = stablehlo.while(%i = %zero, %h = %none, %ys = %empty, %sum = %nothing) : tensor<i32>, tensor<64x32xf32>, tensor<256x64xf32>, tensor<32xf32>
    cond {
      %n = stablehlo.constant dense<256> : tensor<i32>
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %init = stablehlo.constant dense<0.0> : tensor<f32>
      %kept = stablehlo.constant dense<0.9> : tensor<64x32xf32>
      %slice = stablehlo.dynamic_slice %x, %i, %zero, %zero, sizes = [1, 64, 32] : (tensor<256x64x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x64x32xf32>
      %row = stablehlo.reshape %slice : (tensor<1x64x32xf32>) -> tensor<64x32xf32>
      %old = stablehlo.multiply %h, %kept : tensor<64x32xf32>
      %new = stablehlo.add %old, %row : tensor<64x32xf32>
      %square = stablehlo.multiply %new, %new : tensor<64x32xf32>
      %y = stablehlo.reduce(%square init: %init) applies stablehlo.add across dimensions = [1] : (tensor<64x32xf32>, tensor<f32>) -> tensor<64xf32>
      %y1 = stablehlo.reshape %y : (tensor<64xf32>) -> tensor<1x64xf32>
      %ys2 = stablehlo.dynamic_update_slice %ys, %y1, %i, %zero : (tensor<256x64xf32>, tensor<1x64xf32>, tensor<i32>, tensor<i32>) -> tensor<256x64xf32>
      %rows = stablehlo.reduce(%new init: %init) applies stablehlo.add across dimensions = [0] : (tensor<64x32xf32>, tensor<f32>) -> tensor<32xf32>
      %sum2 = stablehlo.add %sum, %rows : tensor<32xf32>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %new, %ys2, %sum2 : tensor<i32>, tensor<64x32xf32>, tensor<256x64xf32>, tensor<32xf32>
    }
    func.return %r#2, %r#3 : tensor<256x64xf32>, tensor<32xf32>
  }
}
