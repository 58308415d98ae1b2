"""Which operations form a kernel together."""
