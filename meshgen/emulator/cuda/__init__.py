"""The CUDA driver and NCCL of emulated GPUs."""
