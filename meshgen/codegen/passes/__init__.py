"""Passes of the stage `fuse` over local programs, before their kernels are cut out."""
