"""Benchmarks for the developers of meshgen, and measurements of its plans. Most need no GPU."""
