"""Upstream's dialect scf."""
