"""The `mesh` dialect of the MLIR RFC on device meshes. It is read, but never printed."""

from __future__ import annotations

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.mesh import clusters, reader
from meshgen.mlir.mesh.operations import ATTRIBUTES, OPERATIONS

DIALECT = merged(Dialect(operations=OPERATIONS, attributes=ATTRIBUTES), clusters.PART, reader.PART)
