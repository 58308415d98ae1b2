// AssertionError in require_defined: meshgen check random_9910459.mlir --seed 9910459 --arguments local
builtin.module attributes {meshgen.stage = "import"} {
  shard.grid @mesh(shape = 2) {axis_names = ["x"]}
  func.func public @main(%arg0: tensor<2xf32>, %cut_v5: tensor<i32>, %cut_v4: tensor<f32>, %cut_v3: tensor<2x1xi32>) -> tensor<1xi32> {
    %v2 = stablehlo.broadcast_in_dim %arg0, dims = [0] {sharding = [[0 : i64], []]} : (tensor<2xf32>) -> tensor<2x1xf32>
    %sharding = shard.sharding @mesh split_axes = [[0], []] : !shard.sharding
    %0 = shard.shard %cut_v3 to %sharding {required = false, open_dims = array<i1: false, false>} : tensor<2x1xi32>
    %v6_0, %v6_1 = stablehlo.reduce(%v2 init: %cut_v4), (%0 init: %cut_v5) across dimensions = [0] : (tensor<2x1xf32>, tensor<2x1xi32>, tensor<f32>, tensor<i32>) -> (tensor<1xf32>, tensor<1xi32>)
         reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
      %1 = stablehlo.compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %2 = stablehlo.select %1, %a, %b : tensor<i1>, tensor<f32>
      stablehlo.return %2, %j : tensor<f32>, tensor<i32>
    }
    func.return %v6_1 : tensor<1xi32>
  }
}
