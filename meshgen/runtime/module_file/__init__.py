"""The `.mgx` module file: its zip container, manifests, tensors and stage texts."""
