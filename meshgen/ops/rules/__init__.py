"""Sharding rules of ops, in factor notation."""
