"""All dialects that meshgen reads; the modules of `FAMILIES` fill the registries when this one is imported."""

from __future__ import annotations

from functools import lru_cache

from xdsl.context import Context
from xdsl.dialects import builtin, func

import meshgen.ir.bridge.bufferization
import meshgen.ir.bridge.collectives
import meshgen.ir.bridge.devices
import meshgen.ir.bridge.donation
import meshgen.ir.bridge.index
import meshgen.ir.bridge.linalg.named
import meshgen.ir.bridge.linalg.pack
import meshgen.ir.bridge.manual
import meshgen.ir.bridge.pairs
import meshgen.ir.bridge.parallel
import meshgen.ir.bridge.rooted
import meshgen.ir.bridge.scf
import meshgen.ir.bridge.schedule
import meshgen.ir.bridge.shard.annotations
import meshgen.ir.bridge.shard.collectives
import meshgen.ir.bridge.shard.mesh
import meshgen.ir.bridge.shard.printing
import meshgen.ir.bridge.shard.queries
import meshgen.ir.bridge.shard.roots
import meshgen.ir.bridge.shard.signature
import meshgen.ir.bridge.shard.transfers
import meshgen.ir.bridge.shardy
import meshgen.ir.bridge.tensor_lookup
import meshgen.ir.bridge.tensor_slices
import meshgen.ir.bridge.tosa.control
import meshgen.ir.bridge.tosa.elementwise
import meshgen.ir.bridge.tosa.lookup
import meshgen.ir.bridge.tosa.variables
import meshgen.ir.bridge.tosa.windows
import meshgen.ir.dialects.sdy.dialect
import meshgen.ir.dialects.sdy.rule_checks
import meshgen.ir.dialects.stablehlo.dialect
from meshgen.ir.bridge import registries

FAMILIES = (
    meshgen.ir.bridge.bufferization,
    meshgen.ir.bridge.collectives,
    meshgen.ir.bridge.devices,
    meshgen.ir.bridge.donation,
    meshgen.ir.bridge.index,
    meshgen.ir.bridge.manual,
    meshgen.ir.bridge.pairs,
    meshgen.ir.bridge.parallel,
    meshgen.ir.bridge.scf,
    meshgen.ir.bridge.rooted,
    meshgen.ir.bridge.schedule,
    meshgen.ir.bridge.shardy,
    meshgen.ir.bridge.tensor_lookup,
    meshgen.ir.bridge.tensor_slices,
    meshgen.ir.bridge.linalg.named,
    meshgen.ir.bridge.linalg.pack,
    meshgen.ir.bridge.shard.annotations,
    meshgen.ir.bridge.shard.collectives,
    meshgen.ir.bridge.shard.mesh,
    meshgen.ir.bridge.shard.printing,
    meshgen.ir.bridge.shard.queries,
    meshgen.ir.bridge.shard.roots,
    meshgen.ir.bridge.shard.signature,
    meshgen.ir.bridge.shard.transfers,
    meshgen.ir.bridge.tosa.control,
    meshgen.ir.bridge.tosa.elementwise,
    meshgen.ir.bridge.tosa.lookup,
    meshgen.ir.bridge.tosa.variables,
    meshgen.ir.bridge.tosa.windows,
    meshgen.ir.dialects.sdy.dialect,
    meshgen.ir.dialects.sdy.rule_checks,
    meshgen.ir.dialects.stablehlo.dialect,
)


@lru_cache(maxsize=1)
def dialects() -> Context:
    """xDSL's context with all of them."""
    context = Context()
    for dialect in (builtin.Builtin, func.Func, *registries.DIALECTS):
        context.load_dialect(dialect)
    return context
