// AssertionError in require_defined: meshgen check random_9910020.mlir --seed 9910020 --arguments local
builtin.module attributes {meshgen.stage = "import"} {
  shard.grid @mesh(shape = 2) {axis_names = ["x"]}
  func.func public @main(%arg2: tensor<1x1x2xf32>, %cut_v4: tensor<i32>, %cut_v3: tensor<f32>, %cut_v2: tensor<1x1x2xi32>) -> tensor<1x1xi32> {
    %v5_0, %v5_1 = stablehlo.reduce(%arg2 init: %cut_v3), (%cut_v2 init: %cut_v4) across dimensions = [2] {sharding = [[], [], [0 : i64]]} : (tensor<1x1x2xf32>, tensor<1x1x2xi32>, tensor<f32>, tensor<i32>) -> (tensor<1x1xf32>, tensor<1x1xi32>)
         reducer(%a: tensor<f32>, %b: tensor<f32>) (%i: tensor<i32>, %j: tensor<i32>) {
      %0 = stablehlo.compare EQ, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %1 = stablehlo.select %0, %a, %b : tensor<i1>, tensor<f32>
      stablehlo.return %1, %j : tensor<f32>, tensor<i32>
    }
    func.return %v5_1 : tensor<1x1xi32>
  }
}
