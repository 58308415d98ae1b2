"""Compiled programs: one step, one per mesh, or one per combination of sizes."""
