"""Decompositions of composites into other ops."""
