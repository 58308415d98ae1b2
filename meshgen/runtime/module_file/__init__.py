"""The `.mgx` module file: a zip container with manifests, tensors and the texts of compilation stages."""
