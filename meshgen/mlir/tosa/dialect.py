"""The dialect tosa. This folder reads it; `mlir/upstream` prints it."""

from __future__ import annotations

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.tosa import control, elementwise, lookup, movement, pooling
from meshgen.mlir.tosa.operations import ATTRIBUTES, OPERATIONS

DIALECT = merged(
    Dialect(operations=OPERATIONS, attributes=ATTRIBUTES),
    elementwise.PART,
    pooling.PART,
    lookup.PART,
    control.PART,
    movement.PART,
)
