"""Tiles measured on devices: how they are chosen, stored in tables, and applied to modules."""
