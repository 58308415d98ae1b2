// Turn a gather or scatter dim whose index is the row number into a batching dim.
// RUN: meshgen opt %s --mesh x=4 --passes iota-gather-to-batch | filecheck %s

func.func @f(%x: tensor<8x12xf32>, %ids: tensor<8x3x1xi32>) -> tensor<8x3xf32> {
  %row = stablehlo.iota dim = 0 : tensor<8x3x1xi32>
  %at = stablehlo.concatenate %row, %ids, dim = 2 : (tensor<8x3x1xi32>, tensor<8x3x1xi32>) -> tensor<8x3x2xi32>
  %r = "stablehlo.gather"(%x, %at) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
    start_index_map = [0, 1], index_vector_dim = 2>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1>}>
    : (tensor<8x12xf32>, tensor<8x3x2xi32>) -> tensor<8x3xf32>
  return %r : tensor<8x3xf32>
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %row = stablehlo.iota dim = 0 : tensor<8x3x1xi32>
// CHECK-NEXT: %r = "stablehlo.gather"(%x, %ids) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [1], operand_batching_dims = [0], start_indices_batching_dims = [0], start_index_map = [1], index_vector_dim = 2>, slice_sizes = array<i64: 1, 1>, indices_are_sorted = false}> : (tensor<8x12xf32>, tensor<8x3x1xi32>) -> tensor<8x3xf32>
// CHECK-NEXT: func.return %r : tensor<8x3xf32>
