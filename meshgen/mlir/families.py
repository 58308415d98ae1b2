"""The dialect families that meshgen reads and prints, in lookup order. A family is a folder of `mlir/`.

Upstream's tensor, loop and arithmetic dialects and the RFC's `mesh` are imported when the first text uses them.
Programs from JAX do not use them, and defining their operations takes longer than reading a small program.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

from meshgen.mlir.chlo.dialect import DIALECT as CHLO
from meshgen.mlir.dialect import Dialect, merged
from meshgen.mlir.func.dialect import DIALECT as FUNC
from meshgen.mlir.sched.dialect import DIALECT as SCHED
from meshgen.mlir.sdy.dialect import DIALECT as SDY
from meshgen.mlir.shard.dialect import DIALECT as SHARD
from meshgen.mlir.stablehlo.dialect import DIALECT as STABLEHLO

CORE = (FUNC, SHARD, SCHED, SDY, STABLEHLO, CHLO)
_UPSTREAM = (
    "affine.", "arith.", "bufferization.", "cf.", "index.", "linalg.", "math.", "ml_program.", "scf.", "tensor.", "tosa.",
)  # fmt: skip
_MESH = ("mesh.", "mesh_cluster")


def dialects(text: str | None = None) -> Dialect:
    """Return the merged tables of the families whose operations `text` may contain, or of all families without a text."""
    if text is None:
        return _dialects(has_mesh=True, has_upstream=True)
    return _dialects(has_mesh=_contains_any(text, _MESH), has_upstream=_contains_any(text, _UPSTREAM))


def _contains_any(text: str, names: Sequence[str]) -> bool:
    """Whether the text contains one of the names, starting at a word boundary.

    A plain substring search comes first, since it is much faster on long texts.
    """
    candidates = [re.escape(name) for name in names if name in text]
    return bool(candidates) and re.search(rf"\b(?:{'|'.join(candidates)})", text) is not None


def core_dialects() -> Dialect:
    """Return the merged tables of the families that are always loaded. Only operations of these are printed."""
    return _dialects(has_mesh=False, has_upstream=False)


@cache
def _dialects(*, has_mesh: bool, has_upstream: bool) -> Dialect:
    families = [*CORE]
    if has_mesh:
        from meshgen.mlir.mesh.dialect import DIALECT as MESH

        families.insert(families.index(SHARD) + 1, MESH)
    if has_upstream:
        from meshgen.mlir.arith.dialect import DIALECT as ARITH
        from meshgen.mlir.linalg.dialect import DIALECT as LINALG
        from meshgen.mlir.scf.dialect import DIALECT as SCF
        from meshgen.mlir.tensor.dialect import DIALECT as TENSOR
        from meshgen.mlir.tosa.dialect import DIALECT as TOSA

        families += [ARITH, LINALG, SCF, TENSOR, TOSA]
    return merged(*families)
