// A branch that reads a slice from outside reads what takes its place.
// RUN: meshgen opt %s --mesh x=4 --passes slice-into-concatenate | filecheck %s

func.func @f(%p: tensor<i1>, %x: tensor<8x4xf32>, %y: tensor<1x4xf32>) -> tensor<8x4xf32> {
  %j = stablehlo.concatenate %y, %x, dim = 0 : (tensor<1x4xf32>, tensor<8x4xf32>) -> tensor<9x4xf32>
  %r = stablehlo.slice %j [0:8, 0:4] : (tensor<9x4xf32>) -> tensor<8x4xf32>
  %z = "stablehlo.if"(%p) ({
    %a = stablehlo.add %r, %r : tensor<8x4xf32>
    stablehlo.return %a : tensor<8x4xf32>
  }, {
    stablehlo.return %r : tensor<8x4xf32>
  }) : (tensor<i1>) -> tensor<8x4xf32>
  return %z : tensor<8x4xf32>
}

// CHECK: %[[ROLLED:.*]] = stablehlo.concatenate %y, %{{.*}}, dim = 0 : (tensor<1x4xf32>, tensor<7x4xf32>) -> tensor<8x4xf32>
// CHECK: stablehlo.add %[[ROLLED]], %[[ROLLED]]
// CHECK: stablehlo.return %[[ROLLED]]
