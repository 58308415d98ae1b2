"""Upstream's dialect tensor, with the operations of bufferization that programs on tensors contain."""
