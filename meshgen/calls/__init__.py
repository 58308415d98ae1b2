"""What callers of a program pass and get: trees, signatures, and arguments as arrays. Needs NumPy only."""
