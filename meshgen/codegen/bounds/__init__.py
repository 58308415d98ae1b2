"""Proofs that a generated kernel touches nothing outside its operands and results."""
