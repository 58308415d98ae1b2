"""Measurement of tiles on devices, tables of measured tiles, and their application to modules."""
