"""The arguments and results of a call: trees, signatures, and arguments as arrays. Needs NumPy only."""
