// RUN: meshgen check %s --json
// REQUIRED: reject MG0201 "@g is declared twice"
shard.grid @g(shape = 4)
shard.grid @g(shape = 4)
func.func @f(%x: tensor<8x12xf32>) -> tensor<8x12xf32> {
  return %x : tensor<8x12xf32>
}
