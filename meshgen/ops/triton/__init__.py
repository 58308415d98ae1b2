"""Triton source of ops."""
