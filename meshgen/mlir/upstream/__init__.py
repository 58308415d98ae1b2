"""Printer of programs in the dialects of LLVM 22 (shard, linalg, arith, math, tensor, tosa, scf), as `mlir-opt` reads
them.
"""
