"""Kernel bodies as Triton source."""
