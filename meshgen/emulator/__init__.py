"""A GPU emulated in NumPy: executes the PTX of a module, all threads of a wave at once, and reports its faults."""
