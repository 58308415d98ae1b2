"""Support for ranks that run in separate processes."""
