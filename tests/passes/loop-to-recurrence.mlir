// The body scales the carried value by a row of %a and stacks the sum of its squares. In the recurrence, the matmul with a vector becomes a sum,
// and the rows of %a are sliced operands.
// RUN: meshgen opt %s --passes loop-to-recurrence | filecheck %s

builtin.module attributes {meshgen.stage = "partition"} {
  shard.grid @g(shape = 4) {axis_names = ["x"]}
  func.func @f(%h: tensor<6x5xf32> {meshgen.layout = #meshgen.split<@g, [["x"], []]>, meshgen.global = tensor<24x5xf32>}, %a: tensor<7x6x5xf32> {meshgen.layout = #meshgen.split<@g, [[], ["x"], []]>, meshgen.global = tensor<7x24x5xf32>},
      %zeros: tensor<7x6xf32> {meshgen.layout = #meshgen.split<@g, [[], ["x"]]>, meshgen.global = tensor<7x24xf32>}) -> (tensor<7x6xf32> {meshgen.layout = #meshgen.split<@g, [[], ["x"]]>, meshgen.global = tensor<7x24xf32>}) {
    %i = stablehlo.constant dense<0> : tensor<i32>
    %n = stablehlo.constant dense<7> : tensor<i32>
    %r:3 = stablehlo.while(%k = %i, %s = %h, %ys = %zeros) : tensor<i32>, tensor<6x5xf32>, tensor<7x6xf32>
      cond {
        %c = stablehlo.compare LT, %k, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
        stablehlo.return %c : tensor<i1>
      } do {
        %zero = stablehlo.constant dense<0> : tensor<i32>
        %one = stablehlo.constant dense<1> : tensor<i32>
        %next = stablehlo.add %k, %one : tensor<i32>
        %slice = stablehlo.dynamic_slice %a, %k, %zero, %zero, sizes = [1, 6, 5] : (tensor<7x6x5xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x6x5xf32>
        %row = stablehlo.reshape %slice : (tensor<1x6x5xf32>) -> tensor<6x5xf32>
        %t = stablehlo.multiply %s, %row : tensor<6x5xf32>
        %d = stablehlo.dot_general %t, %t, batching_dims = [0] x [0], contracting_dims = [1] x [1] : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6xf32>
        %y = stablehlo.reshape %d : (tensor<6xf32>) -> tensor<1x6xf32>
        %stack = stablehlo.dynamic_update_slice %ys, %y, %k, %zero : (tensor<7x6xf32>, tensor<1x6xf32>, tensor<i32>, tensor<i32>) -> tensor<7x6xf32>
        stablehlo.return %next, %t, %stack : tensor<i32>, tensor<6x5xf32>, tensor<7x6xf32>
      }
    return %r#2 : tensor<7x6xf32>
  }
}

// CHECK: "sched.recurrence"(%h, %zeros, %a) <{
// CHECK-SAME: trips = 7
// CHECK-SAME: sliced = array<i64: 1, 2>
// CHECK-NEXT: ^{{.*}}(%s: tensor<6x5xf32>, %ys: tensor<1x6xf32>, %slice: tensor<1x6x5xf32>):
// CHECK-NOT: dot_general
// CHECK: stablehlo.multiply
// CHECK: stablehlo.reduce
// CHECK-NOT: dot_general
