// A loop over the rows of %w that stacks its results in reverse order becomes a scan with sliced operands and stacked results. The counter is
// removed.
// RUN: meshgen opt %s --passes loop-to-scan | filecheck %s

builtin.module attributes {meshgen.stage = "partition"} {
  shard.grid @g(shape = 4) {axis_names = ["x"]}
  func.func @f(%x: tensor<1x8xf32> {meshgen.layout = #meshgen.split<@g, [["x"], []]>, meshgen.global = tensor<4x8xf32>}, %w: tensor<6x8xf32> {meshgen.layout = #meshgen.split<@g, [["x"], []]>, meshgen.global = tensor<24x8xf32>},
      %zeros: tensor<6x8xf32> {meshgen.layout = #meshgen.split<@g, [["x"], []]>, meshgen.global = tensor<24x8xf32>}) -> (tensor<6x8xf32> {meshgen.layout = #meshgen.split<@g, [["x"], []]>, meshgen.global = tensor<24x8xf32>}) {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<6> : tensor<i32>
    %r:3 = stablehlo.while(%a = %i, %b = %x, %ys = %zeros) : tensor<i32>, tensor<1x8xf32>, tensor<6x8xf32>
      cond {
        %c = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %last = stablehlo.constant dense<5> : tensor<i32>
        %next = stablehlo.add %a, %one : tensor<i32>
        %back = stablehlo.subtract %last, %a : tensor<i32>
        %row = stablehlo.dynamic_slice %w, %a, %zero, sizes = [1, 8] : (tensor<6x8xf32>, tensor<i32>, tensor<i32>) -> tensor<1x8xf32>
        %t = stablehlo.multiply %b, %row : tensor<1x8xf32>
        %s = shard.all_reduce %t on @g grid_axes = [0] : tensor<1x8xf32> -> tensor<1x8xf32>
        %stack = stablehlo.dynamic_update_slice %ys, %s, %back, %zero : (tensor<6x8xf32>, tensor<1x8xf32>, tensor<i32>, tensor<i32>) -> tensor<6x8xf32>
        stablehlo.return %next, %s, %stack : tensor<i32>, tensor<1x8xf32>, tensor<6x8xf32>
      }
    return %r#2 : tensor<6x8xf32>
  }
}

// CHECK: "sched.scan"(%x, %zeros, %w) <{
// CHECK-SAME: trips = 6
// CHECK-SAME: sliced = array<i64: 1, 2>
// CHECK-SAME: offsets = array<i64: 5, 0>
// CHECK-SAME: strides = array<i64: -1, 1>
// CHECK-NEXT: ^{{.*}}(%b: tensor<1x8xf32>, %ys: tensor<1x8xf32>, %row: tensor<1x8xf32>):
// CHECK-NEXT: %t = stablehlo.multiply %b, %row
// CHECK-NEXT: %s = shard.all_reduce %t
// CHECK-NEXT: stablehlo.return %s, %s
