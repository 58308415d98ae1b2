"""A GPU in NumPy: executes the PTX that ships in a module, all threads of a grid at once, and says what is wrong with it."""
