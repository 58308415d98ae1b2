"""All dialects that meshgen reads; the modules of `FAMILIES` fill the registries when this one is imported."""

from __future__ import annotations

from functools import lru_cache

from xdsl.context import Context
from xdsl.dialects import builtin, func

import meshgen.mlir.arith.index
import meshgen.mlir.donation
import meshgen.mlir.linalg.named
import meshgen.mlir.linalg.pack
import meshgen.mlir.mesh.reader
import meshgen.mlir.scf.control
import meshgen.mlir.scf.parallel
import meshgen.mlir.sched.conversion
import meshgen.mlir.sdy.dialect
import meshgen.mlir.sdy.manual
import meshgen.mlir.sdy.propagation
import meshgen.mlir.sdy.rule_checks
import meshgen.mlir.shard.annotations
import meshgen.mlir.shard.collectives
import meshgen.mlir.shard.printing
import meshgen.mlir.shard.queries
import meshgen.mlir.shard.roots
import meshgen.mlir.shard.signature
import meshgen.mlir.shard.transfers
import meshgen.mlir.stablehlo.collectives
import meshgen.mlir.stablehlo.devices
import meshgen.mlir.stablehlo.dialect
import meshgen.mlir.stablehlo.point_to_point
import meshgen.mlir.stablehlo.rooted_collectives
import meshgen.mlir.tensor.bufferization
import meshgen.mlir.tensor.lookup
import meshgen.mlir.tensor.slices
import meshgen.mlir.tosa.control
import meshgen.mlir.tosa.elementwise
import meshgen.mlir.tosa.lookup
import meshgen.mlir.tosa.pooling
import meshgen.mlir.tosa.variables
from meshgen.mlir import registries

FAMILIES = (
    meshgen.mlir.tensor.bufferization,
    meshgen.mlir.stablehlo.collectives,
    meshgen.mlir.stablehlo.devices,
    meshgen.mlir.donation,
    meshgen.mlir.arith.index,
    meshgen.mlir.sdy.manual,
    meshgen.mlir.stablehlo.point_to_point,
    meshgen.mlir.scf.parallel,
    meshgen.mlir.scf.control,
    meshgen.mlir.stablehlo.rooted_collectives,
    meshgen.mlir.sched.conversion,
    meshgen.mlir.sdy.propagation,
    meshgen.mlir.tensor.lookup,
    meshgen.mlir.tensor.slices,
    meshgen.mlir.linalg.named,
    meshgen.mlir.linalg.pack,
    meshgen.mlir.shard.annotations,
    meshgen.mlir.shard.collectives,
    meshgen.mlir.mesh.reader,
    meshgen.mlir.shard.printing,
    meshgen.mlir.shard.queries,
    meshgen.mlir.shard.roots,
    meshgen.mlir.shard.signature,
    meshgen.mlir.shard.transfers,
    meshgen.mlir.tosa.control,
    meshgen.mlir.tosa.elementwise,
    meshgen.mlir.tosa.lookup,
    meshgen.mlir.tosa.variables,
    meshgen.mlir.tosa.pooling,
    meshgen.mlir.sdy.dialect,
    meshgen.mlir.sdy.rule_checks,
    meshgen.mlir.stablehlo.dialect,
)


@lru_cache(maxsize=1)
def dialects() -> Context:
    """xDSL's context with all of them."""
    context = Context()
    for dialect in (builtin.Builtin, func.Func, *registries.DIALECTS):
        context.load_dialect(dialect)
    return context
