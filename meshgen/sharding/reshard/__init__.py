"""Reshard plans: the cheapest sequence of collectives from one sharding to another."""
