"""Execution of a module on GPUs, real or emulated."""
