// Join two GEMMs whose results are added into one kernel at the position of the second. A GEMM that reads their sum is not joined.
// RUN: meshgen opt %s --passes product-fusion | filecheck %s

builtin.module attributes {meshgen.stage = "fuse"} {
  shard.grid @g(shape = 1) {axis_names = ["x"]}
  func.func public @f(%a: tensor<64x96xf32> {meshgen.layout = #meshgen.split<@g, [[], []]>, meshgen.global = tensor<64x96xf32>}, %b: tensor<96x64xf32> {meshgen.layout = #meshgen.split<@g, [[], []]>, meshgen.global = tensor<96x64xf32>})
      -> (tensor<64x64xf32> {meshgen.layout = #meshgen.split<@g, [[], []]>, meshgen.global = tensor<64x64xf32>}, tensor<64x64xf32> {meshgen.layout = #meshgen.split<@g, [[], []]>, meshgen.global = tensor<64x64xf32>}) {
    %p = func.call @dot(%a, %b) : (tensor<64x96xf32>, tensor<96x64xf32>) -> tensor<64x64xf32>
    %q = func.call @dot_add(%a, %b, %p) : (tensor<64x96xf32>, tensor<96x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    %r = func.call @dot_2(%q, %q) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    func.return %q, %r : tensor<64x64xf32>, tensor<64x64xf32>
  }
  func.func private @dot(%a: tensor<64x96xf32>, %b: tensor<96x64xf32>) -> tensor<64x64xf32> attributes {meshgen.kernel} {
    %p = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x96xf32>, tensor<96x64xf32>) -> tensor<64x64xf32>
    func.return %p : tensor<64x64xf32>
  }
  func.func private @dot_add(%a: tensor<64x96xf32>, %b: tensor<96x64xf32>, %c: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {meshgen.kernel} {
    %d = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x96xf32>, tensor<96x64xf32>) -> tensor<64x64xf32>
    %q = stablehlo.add %d, %c : tensor<64x64xf32>
    func.return %q : tensor<64x64xf32>
  }
  func.func private @dot_2(%a: tensor<64x64xf32>, %b: tensor<64x64xf32>) -> tensor<64x64xf32> attributes {meshgen.kernel} {
    %p = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0] : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
    func.return %p : tensor<64x64xf32>
  }
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %q = func.call @dot_add_2(%a, %b) : (tensor<64x96xf32>, tensor<96x64xf32>) -> tensor<64x64xf32>
// CHECK-NEXT: %r = func.call @dot_2(%q, %q) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32>
// CHECK-NEXT: func.return %q, %r : tensor<64x64xf32>, tensor<64x64xf32>
