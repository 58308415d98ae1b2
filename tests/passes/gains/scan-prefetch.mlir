// 200 layers whose weights are sharded over eight devices and gathered per layer. Without the pass every iteration waits for its weights, with
// it they arrive during the previous iteration.
// GAIN: step 1.2

module @fsdp {
  sdy.mesh @mesh = <["x"=8]>
  func.func @main(%x: tensor<8192x2048xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}, %w: tensor<200x2048x2048xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}, {}]>})
      -> (tensor<8192x2048xbf16> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) {
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %r:2 = stablehlo.while(%i = %zero, %h = %x) : tensor<i32>, tensor<8192x2048xbf16>
    cond {
      %n = stablehlo.constant dense<200> : tensor<i32>
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %one = stablehlo.constant dense<1> : tensor<i32>
      %s = sdy.sharding_constraint %h <@mesh, [{"x"}, {}]> : tensor<8192x2048xbf16>
      %w1 = stablehlo.dynamic_slice %w, %i, %zero, %zero, sizes = [1, 2048, 2048] : (tensor<200x2048x2048xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2048x2048xbf16>
      %w2 = stablehlo.reshape %w1 : (tensor<1x2048x2048xbf16>) -> tensor<2048x2048xbf16>
      %y = stablehlo.dot_general %s, %w2, contracting_dims = [1] x [0] : (tensor<8192x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<8192x2048xbf16>
      %t = stablehlo.tanh %y : tensor<8192x2048xbf16>
      %c = sdy.sharding_constraint %t <@mesh, [{"x"}, {}]> : tensor<8192x2048xbf16>
      %next = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %next, %c : tensor<i32>, tensor<8192x2048xbf16>
    }
    func.return %r#1 : tensor<8192x2048xbf16>
  }
}
