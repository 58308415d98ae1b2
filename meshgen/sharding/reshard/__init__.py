"""Reshard plans: the cheapest collectives from one sharding to another."""
