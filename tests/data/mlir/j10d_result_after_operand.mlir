// RUN: meshgen check %s --json
// REQUIRED: reject MG0205 "for its producer with [{}, {0}], but an annotation for users, [{0}, {}]"
shard.grid @g(shape = 4)
func.func @f(%x: tensor<8x12xf32>) -> tensor<8x12xf32> {
  %s = shard.sharding @g split_axes = [[0]] : !shard.sharding
  %t = shard.sharding @g split_axes = [[], [0]] : !shard.sharding
  %a = shard.shard %x to %s annotate_for_users : tensor<8x12xf32>
  %b = shard.shard %a to %t : tensor<8x12xf32>
  %c = tosa.abs %b : (tensor<8x12xf32>) -> tensor<8x12xf32>
  return %c : tensor<8x12xf32>
}
