"""Programs on several meshes: the mesh of each value, one program per mesh, transfers between them."""
