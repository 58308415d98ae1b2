// AssertionError in require_defined: meshgen check random_9910060.mlir --seed 9910060 --arguments local
builtin.module attributes {meshgen.stage = "import"} {
  shard.grid @mesh(shape = 2) {axis_names = ["x"]}
  func.func public @main(%arg5: tensor<4x1xi32>, %cut_v8: tensor<i32>, %cut_v7: tensor<i32>, %cut_v6: tensor<4x1xi32>) -> tensor<1xi32> {
    %sharding = shard.sharding @mesh split_axes = [[0], []] : !shard.sharding
    %0 = shard.shard %cut_v6 to %sharding {open_dims = array<i1: false, false>} : tensor<4x1xi32>
    %v9_0, %v9_1 = stablehlo.reduce(%arg5 init: %cut_v7), (%0 init: %cut_v8) across dimensions = [0] : (tensor<4x1xi32>, tensor<4x1xi32>, tensor<i32>, tensor<i32>) -> (tensor<1xi32>, tensor<1xi32>)
         reducer(%a: tensor<i32>, %b: tensor<i32>) (%i: tensor<i32>, %j: tensor<i32>) {
      %1 = stablehlo.compare EQ, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %2 = stablehlo.select %1, %a, %b : tensor<i1>, tensor<i32>
      stablehlo.return %2, %j : tensor<i32>, tensor<i32>
    }
    func.return %v9_1 : tensor<1xi32>
  }
}
