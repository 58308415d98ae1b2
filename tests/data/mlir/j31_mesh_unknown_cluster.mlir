// RUN: meshgen check %s --json
// REQUIRED: reject MG0201 "unknown cluster '@n'"
mesh.cluster @m(rank = 1, dim_sizes = [2])
func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> attributes {mesh_cluster = @n} {
  return %x : tensor<8xf32>
}
