"""Readers of upstream's dialect tensor, and of those operations of bufferization that occur in programs on tensors."""
