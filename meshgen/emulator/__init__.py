"""A GPU emulated in NumPy. It executes the PTX of a module, all threads of a wave at once, and reports faults of the
kernels.
"""
