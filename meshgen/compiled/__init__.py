"""What a compiled program is to its user: one step, one per mesh, or one per combination of sizes."""
