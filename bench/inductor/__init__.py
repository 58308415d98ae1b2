"""Launches of `torch.compile` for the programs that meshgen is benchmarked on, counted in Inductor's code. No GPU is
needed.
"""
