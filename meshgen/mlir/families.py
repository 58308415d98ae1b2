"""All dialects that meshgen reads. Their modules fill the registries when they are imported.

Upstream's dialects of tensors, loops and numbers are imported with the first text that names one: programs from JAX do not, and
defining their operations takes longer than reading a small program.
"""

from __future__ import annotations

import re
from functools import lru_cache
from importlib import import_module

from xdsl.context import Context
from xdsl.dialects import builtin, func

import meshgen.mlir.donation
import meshgen.mlir.mesh.reader
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
import meshgen.mlir.stablehlo.point_to_point
import meshgen.mlir.stablehlo.rooted_collectives
import meshgen.mlir.stablehlo_and_chlo
from meshgen.mlir import registries

FAMILIES = (
    meshgen.mlir.stablehlo.collectives,
    meshgen.mlir.stablehlo.devices,
    meshgen.mlir.donation,
    meshgen.mlir.sdy.manual,
    meshgen.mlir.stablehlo.point_to_point,
    meshgen.mlir.stablehlo.rooted_collectives,
    meshgen.mlir.sched.conversion,
    meshgen.mlir.sdy.propagation,
    meshgen.mlir.shard.annotations,
    meshgen.mlir.shard.collectives,
    meshgen.mlir.mesh.reader,
    meshgen.mlir.shard.printing,
    meshgen.mlir.shard.queries,
    meshgen.mlir.shard.roots,
    meshgen.mlir.shard.signature,
    meshgen.mlir.shard.transfers,
    meshgen.mlir.sdy.dialect,
    meshgen.mlir.sdy.rule_checks,
    meshgen.mlir.stablehlo_and_chlo,
)
UPSTREAM = (
    "arith.index", "linalg.named", "linalg.pack", "scf.control", "scf.parallel", "tensor.bufferization", "tensor.lookup",
    "tensor.slices", "tosa.control", "tosa.elementwise", "tosa.lookup", "tosa.pooling", "tosa.variables",
)  # fmt: skip
"""The modules of upstream's dialects, which need each other; nothing else needs them."""
_NAMED = re.compile(r"\b(?:affine|arith|bufferization|cf|index|linalg|math|ml_program|scf|tensor|tosa)\.")


def dialects(text: str | None = None) -> Context:
    """xDSL's context with all of them, or with those that `text` may need."""
    return _dialects(text is None or _NAMED.search(text) is not None)


@lru_cache(maxsize=2)
def _dialects(with_upstream: bool) -> Context:
    for name in UPSTREAM if with_upstream else ():
        import_module(f"meshgen.mlir.{name}")
    context = Context()
    for dialect in (builtin.Builtin, func.Func, *registries.DIALECTS):
        context.load_dialect(dialect)
    return context
