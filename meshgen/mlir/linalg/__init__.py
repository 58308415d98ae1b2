"""Readers of linalg's structured and named operations."""
