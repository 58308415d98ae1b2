"""Grouping of operations into kernels."""
