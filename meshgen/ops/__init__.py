"""The records of all ops: types, semantics, errors, sharding rules, kernels. `op.py` defines their fields.

Importing the package fills `registry.OPS` from the families below.
"""

from __future__ import annotations

from meshgen.ops import (
    attention,
    composite_records,
    contraction,
    control,
    elementwise,
    linalg,
    movement,
    registry,
    sharding,
    size_queries,
)

FAMILIES = (
    elementwise.OPS,
    movement.OPS,
    contraction.OPS,
    attention.OPS,
    composite_records.OPS,
    control.OPS,
    linalg.OPS,
    sharding.OPS,
    size_queries.OPS,
)

registry.register(FAMILIES)
