"""Reductions and scans with a custom function in Triton's interpreter, on entire arrays.

The stock interpreter calls the function once per element. Here n elements take log2 n calls, and neighbors are combined
first, as the lanes of a GPU do. Only `interpret_triton.py` imports this module.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from meshgen.ops.evaluate.common import Array


def reduced_by_halves(rows: Sequence[Array], combine: Callable[[list[Array], list[Array]], list[Array]]) -> list[Array]:
    """Reduce all arrays along their first dim by combining neighbors, in log2 n calls of `combine`."""
    arrays = list(rows)
    while (length := len(arrays[0])) > 1:
        half = length // 2
        merged = combine([x[0 : 2 * half : 2] for x in arrays], [x[1 : 2 * half : 2] for x in arrays])
        arrays = [np.concatenate([m, x[2 * half :]]) for m, x in zip(merged, arrays, strict=True)]
    return [x[0] for x in arrays]


def scanned_by_halves(rows: Sequence[Array], combine: Callable[[list[Array], list[Array]], list[Array]]) -> list[Array]:
    """Return the inclusive scan of all arrays along their first dim."""
    arrays, distance = list(rows), 1
    while distance < len(arrays[0]):  # The loop needs no remainder, because Triton's shapes are powers of two.
        merged = combine([np.roll(x, distance, 0) for x in arrays], arrays)
        arrays = [np.concatenate([x[:distance], m[distance:]]) for m, x in zip(merged, arrays, strict=True)]
        distance *= 2
    return arrays


def generic_reduce(self: Any, tensors: Sequence[Any]) -> list[Any]:
    """Replacement of `ReduceOps.generic_reduce`."""
    tensors, axis = self.unravel(tensors, self.axis)
    reduced = reduced_by_halves([np.moveaxis(x.handle.data, axis, 0) for x in tensors], _combining(self, tensors))
    if self.keep_dims:
        reduced = [
            np.expand_dims(x, axis if self.axis is not None else tuple(range(tensors[0].handle.data.ndim)))
            for x in reduced
        ]
    return [self.to_tensor(x if x.ndim else x.item(), tensor.dtype) for x, tensor in zip(reduced, tensors, strict=True)]


def generic_scan(self: Any, tensors: Sequence[Any]) -> list[Any]:
    """Replacement of `ScanOps.generic_scan`."""
    scanned = scanned_by_halves([np.moveaxis(x.handle.data, self.axis, 0) for x in tensors], _combining(self, tensors))
    return [
        self.to_tensor(np.moveaxis(x, 0, self.axis), tensor.dtype) for x, tensor in zip(scanned, tensors, strict=True)
    ]


def _combining(self: Any, operands: Sequence[Any]) -> Callable[[list[Array], list[Array]], list[Array]]:
    """Return Triton's combining function as a function on lists of arrays.

    A full reduction passes arrays of one element.
    """

    def combine(left: list[Array], right: list[Array]) -> list[Array]:
        tensors = [
            self.to_tensor(x, tensor.dtype) for side in (left, right) for x, tensor in zip(side, operands, strict=True)
        ]
        combined = self.combine_fn(*tensors)
        parts = combined if isinstance(combined, tuple) else (combined,)
        return [np.asarray(part.handle.data).reshape(x.shape) for part, x in zip(parts, left, strict=True)]

    return combine
