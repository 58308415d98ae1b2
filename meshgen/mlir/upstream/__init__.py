"""Print programs in the dialects of LLVM 22 alone, as `mlir-opt` reads them: shard, linalg, arith, math, tensor, tosa and scf."""
