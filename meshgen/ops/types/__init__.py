"""Result types of ops, and faults of malformed ones."""
