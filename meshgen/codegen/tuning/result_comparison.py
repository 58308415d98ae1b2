"""Comparison of the results of two forms (tiles) of a kernel, which may differ only by rounding in other summation
orders.
"""

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

# Most FLOP of a kernel whose errors are bounded element by element. NumPy takes about a minute for this many.
MOST_BOUNDED = 1e9
TF32_ROUNDOFF = 2.0**-11  # unit roundoff of TF32, the least precise format to which matmul operands are rounded
# Most roundoffs, relative to the largest element, by which results may differ. Chosen: random errors grow with a root
ROUNDOFFS = 8
Array = np.ndarray[Any, Any]


def allowed(body: Graph, mesh: Mesh, rank: int, operands: Sequence[Array], results: Sequence[Array]) -> list[Array]:
    """Return, for each array in `results`, how much the elements of another form of the kernel may differ from it.

    For small kernels, the bound is derived for each element (`ops/tolerance`). NumPy is too slow for that in large
    kernels: their floats may differ by `ROUNDOFFS` of the largest element, and their integers must be equal.
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


def differences(results: Sequence[Array], expected: Sequence[Array], bounds: Sequence[Array]) -> Iterator[str]:
    """Yield a text for each result whose elements differ from `expected` by more than `bounds`. NaNs are equal."""
    for i, (left, right, bound) in enumerate(zip(results, expected, bounds, strict=True)):
        with np.errstate(all="ignore"):
            wide = np.complex128 if np.iscomplexobj(right) else np.float64
            a, b = left.astype(wide), right.astype(wide)
            is_equal = (left == right) | (np.isnan(a) & np.isnan(b))
            error = np.where(is_equal, 0.0, np.nan_to_num(np.abs(a - b), nan=np.inf))
            differs = error > np.broadcast_to(bound, error.shape)
        if differs.any():
            text = f"{np.count_nonzero(differs)} of {differs.size} elements of result {i} differ, by up to {error[differs].max():.3g}"
            yield text
