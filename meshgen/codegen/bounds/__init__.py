"""Proofs that a generated kernel accesses nothing outside its operands and results."""
