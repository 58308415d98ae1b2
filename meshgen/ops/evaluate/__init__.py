"""What every op means, on NumPy arrays."""
