"""Arguments and results of calls: nested structures, signatures, and the conversion to arrays. Needs NumPy only."""
