"""Rewrites of the user's program to equivalent programs, and the cost by which these are compared."""
