"""Readers of tosa."""
