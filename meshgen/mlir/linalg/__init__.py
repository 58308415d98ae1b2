"""Upstream's dialect linalg: structured and named operations."""
