"""Compiled programs: of a single step, of several meshes, or of several combinations of sizes."""
