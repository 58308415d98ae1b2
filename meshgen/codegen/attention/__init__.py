"""Recognition of attention in the imported program, before any pass decides how to shard it."""
