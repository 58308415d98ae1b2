"""A module on GPUs, real or emulated."""
