"""Shardy's dialect `sdy`, as far as JAX emits it. Read only, but for manual computations and directives of propagation."""

from __future__ import annotations

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.sdy import gspmd, manual, propagation, rule_checks, shardings
from meshgen.mlir.sdy.attributes import (
    ManualAxesAttr,
    MeshAttr,
    ShardingAttr,
    ShardingPerValueAttr,
    ShardingRuleAttr,
)
from meshgen.mlir.sdy.collectives import COLLECTIVES, LISTED
from meshgen.mlir.sdy.manual_op import RETURN, ManualComputationOp
from meshgen.mlir.sdy.propagation_ops import OPERATIONS, DirectionAttr
from meshgen.mlir.sdy.sharding_ops import MeshOp, ReshardOp, ShardingConstraintOp
from meshgen.mlir.sdy.signatures import SIGNATURES

DIALECT = merged(
    Dialect(
        signatures=SIGNATURES,
        operations=(
            MeshOp, ShardingConstraintOp, ReshardOp, ManualComputationOp, RETURN, *OPERATIONS, *COLLECTIVES,
        ),
        attributes=(
            MeshAttr, ShardingRuleAttr, ShardingAttr, ShardingPerValueAttr, ManualAxesAttr, DirectionAttr, *LISTED,
        ),
    ),
    shardings.PART,
    manual.PART,
    gspmd.PART,
    propagation.PART,
    rule_checks.PART,
)  # fmt: skip
