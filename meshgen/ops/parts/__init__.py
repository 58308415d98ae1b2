"""How ops that fold a dim with a monoid are done in parts of the dim."""
