"""Sessions: loaded modules whose weights and state stay on the devices between steps."""
