"""The records of all ops: types, semantics, errors, sharding rules, kernels. `op.py` defines their fields.

Importing the package fills `registry.OPS` from the families below.
"""

from __future__ import annotations

from meshgen.ops import (
    attention,
    contraction,
    control,
    elementwise,
    factored,
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
    factored.OPS,
    control.OPS,
    linalg.OPS,
    sharding.OPS,
    size_queries.OPS,
)

registry.register(FAMILIES)
