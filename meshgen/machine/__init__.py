"""Machines: hosts of GPUs, and the links inside and between them."""
