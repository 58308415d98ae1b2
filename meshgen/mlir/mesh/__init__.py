"""The RFC's `mesh` dialect, read as what `shard` says."""
