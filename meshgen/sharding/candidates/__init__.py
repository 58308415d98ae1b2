"""Candidates of propagation: programs that compute the same, or the same program solved otherwise, and the search that compares them."""
