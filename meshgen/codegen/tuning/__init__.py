"""Tiles that were measured on devices: choosing them, keeping them in tables, and putting them into modules."""
