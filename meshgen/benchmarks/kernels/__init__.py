"""`meshgen bench kernels`: programs of one kernel or a few, as they are built, and as they run on a GPU."""
