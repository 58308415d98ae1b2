"""Passes on local programs (the per-device programs), before the stage `fuse` groups their ops into kernels."""
