"""Result types of ops, and what is wrong with malformed ones."""
