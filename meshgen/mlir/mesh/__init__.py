"""The `mesh` dialect of the MLIR RFC on device meshes, which becomes the same nodes as `shard`."""
