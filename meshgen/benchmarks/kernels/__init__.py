"""`meshgen bench kernels`: compiled kernels of small programs, and their times on a GPU."""
