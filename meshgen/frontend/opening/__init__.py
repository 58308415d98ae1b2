"""Infer programs with open sizes: read a program at several sizes, and fit a formula to each number that varies."""
