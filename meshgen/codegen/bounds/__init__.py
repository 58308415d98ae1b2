"""Proofs that a generated kernel accesses no memory outside its operands and results."""
