// Replace a chain of reshards by the cheapest path from its first to its last layout.
// RUN: meshgen opt %s --passes reshard-replan | filecheck %s

builtin.module attributes {meshgen.stage = "materialize"} {
  shard.grid @g(shape = 4x2) {axis_names = ["x", "y"]}
  func.func @f(%p: tensor<32x12xf32, #meshgen.split<@g, [["x"], ["y"]]>>) -> tensor<32x12xf32, #meshgen.split<@g, [["x"], []]>> {
    %a = shard.all_gather %p on @g grid_axes = [0] gather_axis = 0
      : tensor<32x12xf32, #meshgen.split<@g, [["x"], ["y"]]>> -> tensor<32x12xf32, #meshgen.split<@g, [[], ["y"]]>>
    %b = shard.all_gather %a on @g grid_axes = [1] gather_axis = 1
      : tensor<32x12xf32, #meshgen.split<@g, [[], ["y"]]>> -> tensor<32x12xf32, #meshgen.split<@g, [[], []]>>
    %r = shard.all_slice %b on @g grid_axes = [0] slice_axis = 0
      : tensor<32x12xf32, #meshgen.split<@g, [[], []]>> -> tensor<32x12xf32, #meshgen.split<@g, [["x"], []]>>
    return %r : tensor<32x12xf32, #meshgen.split<@g, [["x"], []]>>
  }
}

// CHECK-LABEL: func.func public @f
// CHECK-NEXT: %r = shard.all_gather %p on @g grid_axes = [1] gather_axis = 1 : tensor<32x12xf32, #meshgen.split<@g, {{\[\[}}"x"], ["y"]]>> -> tensor<32x12xf32, #meshgen.split<@g, {{\[\[}}"x"], []]>>
// CHECK-NEXT: func.return %r : tensor<32x12xf32, #meshgen.split<@g, {{\[\[}}"x"], []]>>
