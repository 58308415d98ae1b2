"""Programs on several meshes: assign values to meshes, split into one program per mesh, and transfer between them."""
