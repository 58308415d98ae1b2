"""Checks that a module is well-formed, and proofs that its schedule is correct, before the module runs."""
