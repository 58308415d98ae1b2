"""Sizes of tensors that are unknown until load."""
