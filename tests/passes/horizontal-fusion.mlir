// Join independent kernels over unequal shapes into one launch, which follows the producers of its operands.
// RUN: meshgen opt %s --passes horizontal-fusion | filecheck %s

builtin.module attributes {meshgen.stage = "fuse"} {
  shard.grid @g(shape = 1) {axis_names = ["x"]}
  func.func public @f(%a: tensor<64x96xf32> {meshgen.layout = #meshgen.split<@g, [[], []]>, meshgen.global = tensor<64x96xf32>}, %b: tensor<32xf32> {meshgen.layout = #meshgen.split<@g, [[]]>, meshgen.global = tensor<32xf32>})
      -> (tensor<64x96xf32> {meshgen.layout = #meshgen.split<@g, [[], []]>, meshgen.global = tensor<64x96xf32>}, tensor<32xf32> {meshgen.layout = #meshgen.split<@g, [[]]>, meshgen.global = tensor<32xf32>}, tensor<32xf32> {meshgen.layout = #meshgen.split<@g, [[]]>, meshgen.global = tensor<32xf32>}) {
    %p = func.call @add(%a) : (tensor<64x96xf32>) -> tensor<64x96xf32>
    %q = func.call @tanh(%b) : (tensor<32xf32>) -> tensor<32xf32>
    %r = func.call @sine(%q) : (tensor<32xf32>) -> tensor<32xf32>
    func.return %p, %q, %r : tensor<64x96xf32>, tensor<32xf32>, tensor<32xf32>
  }
  func.func private @add(%a: tensor<64x96xf32>) -> tensor<64x96xf32> attributes {meshgen.kernel} {
    %p = stablehlo.add %a, %a : tensor<64x96xf32>
    func.return %p : tensor<64x96xf32>
  }
  func.func private @tanh(%b: tensor<32xf32>) -> tensor<32xf32> attributes {meshgen.kernel} {
    %q = stablehlo.tanh %b : tensor<32xf32>
    func.return %q : tensor<32xf32>
  }
  func.func private @sine(%b: tensor<32xf32>) -> tensor<32xf32> attributes {meshgen.kernel} {
    %q = stablehlo.sine %b : tensor<32xf32>
    func.return %q : tensor<32xf32>
  }
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %q = func.call @tanh(%b) : (tensor<32xf32>) -> tensor<32xf32>
// CHECK-NEXT: %p, %r = func.call @add_sine(%a, %q) : (tensor<64x96xf32>, tensor<32xf32>) -> (tensor<64x96xf32>, tensor<32xf32>)
// CHECK-NEXT: func.return %p, %q, %r : tensor<64x96xf32>, tensor<32xf32>, tensor<32xf32>
// CHECK: @add_sine({{.*}}) -> (tensor<64x96xf32>, tensor<32xf32>) attributes {meshgen.kernel = "segmented"}
