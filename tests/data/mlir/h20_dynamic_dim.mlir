// RUN: meshgen check %s --json --shape x=2x3
// REQUIRED: all_gather 1
shard.grid @g(shape = 4)
func.func @f(%x: tensor<?x3xf32>) -> tensor<?x3xf32> {
  %r = shard.all_gather %x on @g grid_axes = [0] gather_axis = 0 : tensor<?x3xf32> -> tensor<?x3xf32>
  return %r : tensor<?x3xf32>
}
