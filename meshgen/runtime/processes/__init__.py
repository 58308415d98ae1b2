"""Ranks in processes of their own."""
