"""Print programs in the dialects of LLVM 22: shard, linalg, arith, math, tensor, tosa and scf, as `mlir-opt` reads
them.
"""
