"""Programs on several meshes: where values live, one program per mesh, what crosses."""
