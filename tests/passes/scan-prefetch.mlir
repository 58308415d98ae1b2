// Gather the weights of a scan body one iteration ahead: the first ones before the scan, the next ones in each iteration. The last iteration
// becomes another scan.
// RUN: meshgen opt %s --passes scan-prefetch | filecheck %s

shard.grid @g(shape = 8) {axis_names = ["x"]}
func.func @f(%x: tensor<1024x2048xbf16>, %w: tensor<400x256x2048xbf16>) -> tensor<1024x2048xbf16> {
  %i = stablehlo.constant dense<0> : tensor<i32>
  %r:2 = stablehlo.while(%a = %i, %h = %x) : tensor<i32>, tensor<1024x2048xbf16>
    cond {
      %n = stablehlo.constant dense<400> : tensor<i32>
      %c = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
    } do {
      %zero = stablehlo.constant dense<0> : tensor<i32>
      %one = stablehlo.constant dense<1> : tensor<i32>
      %next = stablehlo.add %a, %one : tensor<i32>
      %row = stablehlo.dynamic_slice %w, %a, %zero, %zero, sizes = [1, 256, 2048] : (tensor<400x256x2048xbf16>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x256x2048xbf16>
      %part = stablehlo.reshape %row : (tensor<1x256x2048xbf16>) -> tensor<256x2048xbf16>
      %layer = shard.all_gather %part on @g grid_axes = [0] gather_axis = 0 : tensor<256x2048xbf16> -> tensor<2048x2048xbf16>
      %y = stablehlo.dot_general %h, %layer, contracting_dims = [1] x [0] : (tensor<1024x2048xbf16>, tensor<2048x2048xbf16>) -> tensor<1024x2048xbf16>
      stablehlo.return %next, %y : tensor<i32>, tensor<1024x2048xbf16>
    }
  return %r#1 : tensor<1024x2048xbf16>
}

// CHECK: stablehlo.slice %w [0:1, 0:256, 0:2048]
// CHECK: %layer = shard.all_gather
// CHECK: "sched.scan"(%x, %layer, %w) <{trips = 399 : i64, sliced = array<i64: 2>, offsets = array<i64: 1>, strides = array<i64: 1>}> ({
// CHECK: shard.all_gather
// CHECK: stablehlo.dot_general
// CHECK: "sched.scan"({{.*}}) <{trips = 1 : i64
// CHECK-NOT: shard.all_gather
// CHECK: stablehlo.dot_general
