// Rematerialize a mask, generated from constants, inside the loop. The loop's other operand is data and stays outside.
// RUN: meshgen opt %s --passes loop-recompute | filecheck %s

builtin.module attributes {meshgen.stage = "partition"} {
  shard.grid @g(shape = 4) {axis_names = ["x"]}
  func.func @f(%x: tensor<1x8xf32> {meshgen.layout = #meshgen.split<@g, [["x"], []]>, meshgen.global = tensor<4x8xf32>}) -> (tensor<1x8xf32> {meshgen.layout = #meshgen.split<@g, [["x"], []]>, meshgen.global = tensor<4x8xf32>}) {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<600> : tensor<i32>
    %place = stablehlo.iota dim = 1 : tensor<1x8xi32>
    %mask = stablehlo.compare LT, %place, %place : (tensor<1x8xi32>, tensor<1x8xi32>) -> tensor<1x8xi1>
    %data = stablehlo.multiply %x, %x : tensor<1x8xf32>
    %r:2 = stablehlo.while(%a = %i, %b = %x) : tensor<i32>, tensor<1x8xf32>
      cond {
        %c = stablehlo.compare LT, %a, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %a, %one : tensor<i32>
        %s = stablehlo.select %mask, %b, %data : tensor<1x8xi1>, tensor<1x8xf32>
        %t = shard.all_reduce %s on @g grid_axes = [0] : tensor<1x8xf32> -> tensor<1x8xf32>
        stablehlo.return %next, %t : tensor<i32>, tensor<1x8xf32>
      }
    return %r#1 : tensor<1x8xf32>
  }
}

// CHECK: %data = stablehlo.multiply %x, %x
// CHECK: stablehlo.while
// CHECK: do {
// CHECK-NEXT: %place = stablehlo.iota dim = 1 : tensor<1x8xi32>
// CHECK-NEXT: %mask = stablehlo.compare LT, %place, %place
// CHECK: %s = stablehlo.select %mask, %b, %data
