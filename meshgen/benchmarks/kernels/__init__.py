"""`meshgen bench kernels`: programs of a few kernels, how they are compiled, and their times on a GPU."""
