"""The CUDA driver and NCCL of the emulated GPUs."""
