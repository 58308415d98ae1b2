"""Infer programs with open sizes: import a program at several sizes, and fit a formula to each number that varies."""
