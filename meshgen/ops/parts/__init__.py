"""Split reductions: ops that reduce a dim with a monoid, computed in parts of the dim and then combined."""
