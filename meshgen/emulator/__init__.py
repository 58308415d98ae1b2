"""A GPU in NumPy: executes the PTX of a module, all threads of a grid at once, and reports its faults."""
