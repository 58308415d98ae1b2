"""Microbenchmarks of generated kernels and of collectives. They need a GPU."""
