"""The launch table of a module: its step as plain calls of CUDA and NCCL, for programs without Python."""
