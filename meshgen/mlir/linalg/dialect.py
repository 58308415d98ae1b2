"""The dialect linalg: structured and named operations. This folder reads them; `mlir/upstream` prints them."""

from __future__ import annotations

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.linalg import named, pack, structured
from meshgen.mlir.linalg.operations import ATTRIBUTES, OPERATIONS

DIALECT = merged(Dialect(operations=OPERATIONS, attributes=ATTRIBUTES), structured.PART, named.PART, pack.PART)
