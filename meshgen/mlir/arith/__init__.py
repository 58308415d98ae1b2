"""Readers of upstream's arithmetic dialects: arith, math, index and affine."""
