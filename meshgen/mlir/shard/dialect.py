"""The dialect `shard`: meshes, shardings and collectives, upstream's and ours. Every stage is printed in it."""

from __future__ import annotations

from xdsl.dialects.shard import ShardAxesArrayAttr, ShardingType

from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.shard import (
    annotations,
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
from meshgen.mlir.shard.collective_ops import COLLECTIVES
from meshgen.mlir.shard.sharding_ops import LAYOUT_OPS
from meshgen.mlir.shard.signatures import SIGNATURES

DIALECT = merged(
    Dialect(
        signatures=SIGNATURES,
        operations=(*LAYOUT_OPS, *COLLECTIVES),
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
