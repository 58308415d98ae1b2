"""Compiled programs: on one mesh, on several meshes, or for several combinations of sizes."""
