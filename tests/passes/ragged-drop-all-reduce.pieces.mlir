// A sum over ep in parts: devices that differ along tp hold the same rows and share the work.
// RUN: meshgen opt %s --passes ragged-drop-all-reduce | filecheck %s

shard.grid @g(shape = 2x2) {axis_names = ["tp", "ep"]}
func.func @experts(%x: tensor<32x16xbf16>, %w: tensor<2x16x8xbf16>, %d: tensor<2x8x16xbf16>, %start: tensor<2xi32>, %end: tensor<2xi32>) -> tensor<32x16xbf16> {
  %h = "sched.ragged_dot"(%x, %w, %start, %end) <{contracts = false, disjoint = true, total_groups = 4 : i64, group_axes = ["ep"]}> : (tensor<32x16xbf16>, tensor<2x16x8xbf16>, tensor<2xi32>, tensor<2xi32>) -> tensor<32x8xbf16>
  %t = shard.all_slice %h on @g grid_axes = [0] slice_axis = 0 : tensor<32x8xbf16> -> tensor<16x8xbf16>
  %s = shard.reduce_scatter %t on @g grid_axes = [1] scatter_axis = 0 : tensor<16x8xbf16> -> tensor<8x8xbf16>
  %hs = shard.all_gather %s on @g grid_axes = [0, 1] gather_axis = 0 : tensor<8x8xbf16> -> tensor<32x8xbf16>
  %a = stablehlo.tanh %hs : tensor<32x8xbf16>
  %y = "sched.ragged_dot"(%a, %d, %start, %end) <{contracts = false, disjoint = true, total_groups = 4 : i64, group_axes = ["ep"]}> : (tensor<32x8xbf16>, tensor<2x8x16xbf16>, tensor<2xi32>, tensor<2xi32>) -> tensor<32x16xbf16>
  %ys = shard.all_reduce %y on @g grid_axes = [1] : tensor<32x16xbf16> -> tensor<32x16xbf16>
  return %ys : tensor<32x16xbf16>
}

// CHECK-LABEL: func.func public @experts
// CHECK-NEXT: %h = "sched.ragged_dot"
// CHECK-NEXT: %a = stablehlo.tanh %h
// CHECK-NEXT: %y = "sched.ragged_dot"
// CHECK-NEXT: %ys = shard.all_reduce
