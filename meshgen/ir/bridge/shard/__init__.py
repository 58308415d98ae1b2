"""The `shard` and `mesh` dialects, to and from graphs."""
