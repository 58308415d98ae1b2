"""Launches of `torch.compile`, counted in the code that Inductor writes for meshgen's benchmark programs. No GPU is
needed.
"""
