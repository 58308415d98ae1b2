"""Upstream's dialects of numbers: arith, math, index, affine."""
