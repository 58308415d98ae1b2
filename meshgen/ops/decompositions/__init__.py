"""Decompositions of composites."""
