"""The dialect tensor, and operations of bufferization and ml_program that occur in programs on tensors.

`mlir/upstream` prints operations of tensor.
"""

from __future__ import annotations

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.tensor import conversion, gather, slices
from meshgen.mlir.tensor.operations import OPERATIONS, SIGNATURES

DIALECT = merged(Dialect(signatures=SIGNATURES, operations=OPERATIONS), conversion.PART, slices.PART, gather.PART)
