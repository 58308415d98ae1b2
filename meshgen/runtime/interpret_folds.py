"""Reductions and scans by a function in Triton's interpreter, on whole arrays: the stock ones call it once per element.

Both halve: of n elements in log2 n calls, neighbours first, as the lanes of a GPU combine them. Imported only by `interpret_triton.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meshgen.ops.evaluate.common import Array


def reduced_by_halves(rows: Sequence[Array], combine: Callable[[list[Array], list[Array]], list[Array]]) -> list[Array]:
    """One element of each array, of what its first dim holds."""
    found = list(rows)
    while (length := len(found[0])) > 1:
        half = length // 2
        merged = combine([x[0 : 2 * half : 2] for x in found], [x[1 : 2 * half : 2] for x in found])
        found = [np.concatenate([m, x[2 * half :]]) for m, x in zip(merged, found, strict=True)]
    return [x[0] for x in found]


def scanned_by_halves(rows: Sequence[Array], combine: Callable[[list[Array], list[Array]], list[Array]]) -> list[Array]:
    """Running totals along the first dim."""
    found, distance = list(rows), 1
    while distance < len(found[0]):  # on whole arrays: Triton's shapes are powers of two
        merged = combine([np.roll(x, distance, 0) for x in found], found)
        found = [np.concatenate([x[:distance], m[distance:]]) for m, x in zip(merged, found, strict=True)]
        distance *= 2
    return found


def generic_reduce(self: Any, given: Sequence[Any]) -> list[Any]:
    """Stands for `ReduceOps.generic_reduce`."""
    given, axis = self.unravel(given, self.axis)
    found = reduced_by_halves([np.moveaxis(x.handle.data, axis, 0) for x in given], _combining(self, given))
    if self.keep_dims:
        found = [
            np.expand_dims(x, axis if self.axis is not None else tuple(range(given[0].handle.data.ndim))) for x in found
        ]
    return [self.to_tensor(x if x.ndim else x.item(), one.dtype) for x, one in zip(found, given, strict=True)]


def generic_scan(self: Any, given: Sequence[Any]) -> list[Any]:
    """Stands for `ScanOps.generic_scan`."""
    found = scanned_by_halves([np.moveaxis(x.handle.data, self.axis, 0) for x in given], _combining(self, given))
    return [self.to_tensor(np.moveaxis(x, 0, self.axis), one.dtype) for x, one in zip(found, given, strict=True)]


def _combining(self: Any, given: Sequence[Any]) -> Callable[[list[Array], list[Array]], list[Array]]:
    """The function on arrays; a reduction to single numbers combines arrays of one element."""

    def combine(left: list[Array], right: list[Array]) -> list[Array]:
        tensors = [self.to_tensor(x, one.dtype) for side in (left, right) for x, one in zip(side, given, strict=True)]
        made = self.combine_fn(*tensors)
        parts = made if isinstance(made, tuple) else (made,)
        return [np.asarray(part.handle.data).reshape(x.shape) for part, x in zip(parts, left, strict=True)]

    return combine
