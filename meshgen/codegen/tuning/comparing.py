"""Whether two forms of a kernel agree: the rounding that their different orders of adding up explain, and no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from meshgen.ir.graph import Graph, is_inexact
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.evaluator import Evaluator
from meshgen.ops.flops import graph_flops
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.runtime.simulate import rank_handlers

MOST_BOUNDED = 1e9  # FLOPs of kernels whose errors are bounded element by element: about a minute in NumPy
TF32_ROUNDOFF = 2.0**-11  # of the operands of products, the least precise that they are rounded to
ROUNDOFFS = (
    8  # that two results may differ by, relative to the largest element: random errors of long sums grow with a root
)
Array = np.ndarray[Any, Any]


def allowed(body: Graph, mesh: Mesh, rank: int, operands: Sequence[Array], results: Sequence[Array]) -> list[Array]:
    """Per result, how far the elements of another form may be from these `results`.

    Small kernels have a bound for each element (`ops/tolerance`); for large ones it would take NumPy too long, and floats may differ
    by `ROUNDOFFS` of the largest element. Integers must be equal there.
    """
    if graph_flops(body) <= MOST_BOUNDED:
        return error_bound(body, operands, evaluator=Evaluator(rank_handlers(mesh, rank)))
    return [
        np.asarray(_of_largest(value.type.dtype, array)) for value, array in zip(body.outputs, results, strict=True)
    ]


def _of_largest(dtype: str, array: Array) -> float:
    if not is_inexact(dtype):
        return 0.0
    with np.errstate(all="ignore"):
        sizes = np.abs(array).astype(np.float64)
    largest = float(np.max(sizes, where=np.isfinite(sizes), initial=0.0))
    return ROUNDOFFS * max(TF32_ROUNDOFF, float(ml_dtypes.finfo(array.dtype).eps) / 2) * largest


def differences(found: Sequence[Array], wanted: Sequence[Array], bounds: Sequence[Array]) -> Iterator[str]:
    """A text for each result with elements that are further apart than is allowed; NaNs are equal."""
    for number, (left, right, bound) in enumerate(zip(found, wanted, bounds, strict=True)):
        with np.errstate(all="ignore"):
            wide = np.complex128 if np.iscomplexobj(right) else np.float64
            a, b = left.astype(wide), right.astype(wide)
            same = (left == right) | (np.isnan(a) & np.isnan(b))
            error = np.where(same, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf))
            wrong = error > np.broadcast_to(bound, error.shape)
        if wrong.any():
            text = f"{np.count_nonzero(wrong)} of {wrong.size} elements of result {number} differ, by up to {error[wrong].max():.3g}"
            yield text
