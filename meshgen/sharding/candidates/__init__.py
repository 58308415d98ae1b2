"""Candidates of propagation, which are equivalent programs or other solutions, and the search that compares them."""
