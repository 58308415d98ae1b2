"""Passes that prepare local programs for the stage `fuse`, which cuts them into kernels."""
