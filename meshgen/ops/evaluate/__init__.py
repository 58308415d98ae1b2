"""NumPy evaluation of every op."""
