"""All families of dialects that meshgen reads and prints, in the order in which their tables are asked.

Upstream's dialects of tensors, loops and numbers are imported with the first text that names one: programs from JAX do not, and
defining their operations takes longer than reading a small program.
"""

from __future__ import annotations

import re
from functools import cache

from meshgen.mlir.chlo.dialect import DIALECT as CHLO
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.func.dialect import DIALECT as FUNC
from meshgen.mlir.mesh.dialect import DIALECT as MESH
from meshgen.mlir.sched.dialect import DIALECT as SCHED
from meshgen.mlir.sdy.dialect import DIALECT as SDY
from meshgen.mlir.shard.dialect import DIALECT as SHARD
from meshgen.mlir.stablehlo.dialect import DIALECT as STABLEHLO

CORE = (FUNC, SHARD, MESH, SCHED, SDY, STABLEHLO, CHLO)
_UPSTREAM = re.compile(r"\b(?:affine|arith|bufferization|cf|index|linalg|math|ml_program|scf|tensor|tosa)\.")


def dialects(text: str | None = None) -> Dialect:
    """All of them, or those that `text` may need."""
    return _all_dialects() if text is None or _UPSTREAM.search(text) is not None else core_dialects()


@cache
def core_dialects() -> Dialect:
    """Those that are printed, and read without upstream's."""
    return merged(*CORE)


@cache
def _all_dialects() -> Dialect:
    from meshgen.mlir.arith.dialect import DIALECT as ARITH
    from meshgen.mlir.linalg.dialect import DIALECT as LINALG
    from meshgen.mlir.scf.dialect import DIALECT as SCF
    from meshgen.mlir.tensor.dialect import DIALECT as TENSOR
    from meshgen.mlir.tosa.dialect import DIALECT as TOSA

    return merged(*CORE, ARITH, LINALG, SCF, TENSOR, TOSA)
