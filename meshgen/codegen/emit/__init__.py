"""Emission of kernel bodies as Triton source."""
