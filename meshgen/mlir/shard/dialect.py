"""The dialect `shard` of upstream MLIR and meshgen's additions to it: meshes, shardings and collectives.

Programs of every stage are printed in it.
"""

from __future__ import annotations

from xdsl.dialects.shard import ShardAxesArrayAttr, ShardingType

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.operation_signature import signatures_of
from meshgen.mlir.shard import (
    annotations,
    collective_ops,
    collectives,
    grid,
    grouped,
    printing,
    queries,
    roots,
    sharding,
    signature,
    transfers,
)
from meshgen.mlir.shard.attributes import AnnotationAttr, PartialAttr, PlanAttr, ReductionKindAttr, SplitAttr
from meshgen.mlir.shard.sharding_ops import LAYOUT_OPS

# Signatures of operations whose definition in xDSL does not restrict operands or results
_SIGNATURES = signatures_of("shard", {
    "0 -> _": "grid_shape process_multi_index",
    "1.. -> 1": "update_halo",
    "1.. -> _": "shard_shape",
    "_ -> 1": "sharding",
    "_ -> 2": "neighbors_linear_indices",
})  # fmt: skip
DIALECT = merged(
    Dialect(
        signatures=_SIGNATURES,
        operations=(*LAYOUT_OPS, *collective_ops.OPERATIONS),
        attributes=(
            ReductionKindAttr,
            ShardingType,
            ShardAxesArrayAttr,
            SplitAttr,
            AnnotationAttr,
            PartialAttr,
            PlanAttr,
        ),
    ),
    grid.PART,
    sharding.PART,
    signature.PART,
    annotations.PART,
    queries.PART,
    collectives.PART,
    grouped.PART,
    roots.PART,
    transfers.PART,
    printing.PART,
)
