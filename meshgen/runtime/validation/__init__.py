"""Checks and proofs of a module before it runs."""
