"""Upstream's dialect tensor, and what programs on tensors hold of bufferization."""
