"""Split reductions: an op that reduces a dim with a monoid is computed on parts of the dim, and the parts are combined."""
