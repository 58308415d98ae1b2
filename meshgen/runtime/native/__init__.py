"""The launch table of a module: a step as a list of plain CUDA and NCCL calls, for programs without Python."""
