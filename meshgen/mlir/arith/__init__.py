"""Upstream's arithmetic dialects: arith, math, index, affine."""
