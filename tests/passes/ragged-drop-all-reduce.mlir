// The gated unit of experts over ep, with rows contracted over tp: the first GEMM stays partial over tp. The last all_reduce is kept, since its
// result is returned.
// RUN: meshgen opt %s --passes ragged-drop-all-reduce | filecheck %s

shard.grid @g(shape = 2x2) {axis_names = ["tp", "ep"]}
func.func @experts(%x: tensor<32x16xbf16>, %w: tensor<2x16x8xbf16>, %v: tensor<2x16x8xbf16>, %d: tensor<2x8x16xbf16>, %start: tensor<2xi32>, %end: tensor<2xi32>) -> (tensor<32x16xbf16>, tensor<32x8xbf16>) {
  %h = "sched.ragged_dot"(%x, %w, %start, %end) <{contracts = false, disjoint = true, total_groups = 4 : i64, group_axes = ["ep"]}> : (tensor<32x16xbf16>, tensor<2x16x8xbf16>, tensor<2xi32>, tensor<2xi32>) -> tensor<32x8xbf16>
  %hs = shard.all_reduce %h on @g grid_axes = [0, 1] : tensor<32x8xbf16> -> tensor<32x8xbf16>
  %a = stablehlo.tanh %hs : tensor<32x8xbf16>
  %u = "sched.ragged_dot"(%x, %v, %start, %end) <{contracts = false, disjoint = true, total_groups = 4 : i64, group_axes = ["ep"]}> : (tensor<32x16xbf16>, tensor<2x16x8xbf16>, tensor<2xi32>, tensor<2xi32>) -> tensor<32x8xbf16>
  %m = stablehlo.multiply %a, %u : tensor<32x8xbf16>
  %ms = shard.all_reduce %m on @g grid_axes = [1] : tensor<32x8xbf16> -> tensor<32x8xbf16>
  %y = "sched.ragged_dot"(%ms, %d, %start, %end) <{contracts = false, disjoint = true, total_groups = 4 : i64, group_axes = ["ep"]}> : (tensor<32x8xbf16>, tensor<2x8x16xbf16>, tensor<2xi32>, tensor<2xi32>) -> tensor<32x16xbf16>
  %ys = shard.all_reduce %y on @g grid_axes = [1] : tensor<32x16xbf16> -> tensor<32x16xbf16>
  %z = "sched.ragged_dot"(%x, %v, %end, %start) <{contracts = false, disjoint = true, total_groups = 4 : i64, group_axes = ["ep"]}> : (tensor<32x16xbf16>, tensor<2x16x8xbf16>, tensor<2xi32>, tensor<2xi32>) -> tensor<32x8xbf16>
  %zs = shard.all_reduce %z on @g grid_axes = [1] : tensor<32x8xbf16> -> tensor<32x8xbf16>
  %o = "sched.ragged_dot"(%zs, %d, %start, %end) <{contracts = false, disjoint = true, total_groups = 4 : i64, group_axes = ["ep"]}> : (tensor<32x8xbf16>, tensor<2x8x16xbf16>, tensor<2xi32>, tensor<2xi32>) -> tensor<32x16xbf16>
  %os = stablehlo.add %o, %ys : tensor<32x16xbf16>
  return %os, %zs : tensor<32x16xbf16>, tensor<32x8xbf16>
}

// CHECK-LABEL: func.func public @experts
// CHECK: %hs = shard.all_reduce %h on @g grid_axes = [0]
// CHECK-NEXT: %a = stablehlo.tanh %hs
// CHECK: %m = stablehlo.multiply %a, %u
// CHECK-NEXT: %y = "sched.ragged_dot"(%m,
// CHECK-NEXT: %ys = shard.all_reduce %y on @g grid_axes = [1]
// CHECK: %zs = shard.all_reduce %z on @g grid_axes = [1]
