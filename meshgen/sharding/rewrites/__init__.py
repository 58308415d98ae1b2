"""Rewrites of the user's program to equivalent ones, and the costs by which these are compared."""
