"""Tensor sizes that are unknown until load."""
