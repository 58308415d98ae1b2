"""Reader of the `mesh` dialect of the MLIR RFC on device meshes. Its operations become the same nodes as those of
`shard`.
"""
