"""Functions and calls, donated arguments, and attributes of the module."""
