// KeyError in <listcomp>: meshgen check random_9960114.mlir --seed 9960114 --arguments local
builtin.module attributes {meshgen.stage = "import"} {
  shard.grid @mesh(shape = 1) {axis_names = ["y"]}
  func.func public @main(%arg2: tensor<7x7x1x1xi32>, %arg3: tensor<i1>) -> tensor<1x14x1x1xi32> {
    %v0 = stablehlo.concatenate %arg2, %arg2, dim = 1 : (tensor<7x7x1x1xi32>, tensor<7x7x1x1xi32>) -> tensor<7x14x1x1xi32>
    %v2 = stablehlo.slice %v0 [0:1, 0:14, 0:1, 0:1] : (tensor<7x14x1x1xi32>) -> tensor<1x14x1x1xi32>
    %v4_0 = "stablehlo.if"(%arg3) ({
      %v0_0 = stablehlo.constant dense<-100> : tensor<i32>
      stablehlo.return %v2 : tensor<1x14x1x1xi32>
    }, {
      stablehlo.return %v2 : tensor<1x14x1x1xi32>
    }) : (tensor<i1>) -> tensor<1x14x1x1xi32>
    func.return %v4_0 : tensor<1x14x1x1xi32>
  }
}
