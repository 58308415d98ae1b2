// mesh.idx and mesh.size by their grammar.
mesh.cluster @mesh0(rank = 2, dim_sizes = [2, 3])
func.func @main() -> tensor<2xi64> attributes { mesh_cluster = @mesh0 } {
  %i = mesh.idx {axis = 1 : index} : index
  %n = mesh.size {axis = 1 : index} : index
  %a = arith.index_cast %i : index to i64
  %b = arith.index_cast %n : index to i64
  %r = tensor.from_elements %a, %b : tensor<2xi64>
  return %r : tensor<2xi64>
}
