"""Reader and printer of functions and calls, donated arguments, and attributes of the module."""
