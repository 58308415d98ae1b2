"""Gathers and scatters, and operators on positions of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.table import Array, Call, dim_of, enter_rows, op
from meshgen.frontend.tracer.creation import full, iota
from meshgen.frontend.tracer.indexing import take, take_along_axis
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import expand_dims
from meshgen.frontend.tracer.tensor import Tensor


@op("Gather", plain=(1,))
def gather(call: Call, x: Tensor, indices: Array | Tensor) -> Tensor:
    axis = dim_of(call["axis"], x.ndim)
    if not isinstance(indices, np.ndarray):
        return take(x, indices, axis)
    rows = np.where(indices < 0, indices + x.shape[axis], indices)
    steps = {*np.diff(rows).tolist()} if rows.ndim == 1 else set[int]()
    if not rows.ndim:
        selection: Any = int(rows)
    elif rows.ndim == 1 and rows.size and len(steps) <= 1 and min(steps, default=1) > 0:
        # A slice replaces the gather, because the indices are evenly spaced.
        selection = slice(int(rows[0]), int(rows[-1]) + 1, min(steps, default=1))
    else:
        selection = rows
    return x[*[slice(None)] * axis, selection]


@op("GatherElements")
def gather_elements(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    """Gather elements along one dim at `indices`, which has the shape of the result.

    Other dims may be shorter than in `x`.
    """
    axis = dim_of(call["axis"], x.ndim)
    block = tuple(slice(None) if d == axis else slice(size) for d, size in enumerate(indices.shape))
    return take_along_axis(x[block], indices, axis)


def _vectors(indices: Tensor, batch: int = 0) -> tuple[Tensor, ...]:
    """Split the index vectors in the last dim of `indices` into one tensor per component.

    The index tensors of `batch` leading batch dims come first.
    """
    shape = indices.shape[:-1]
    batch_indices = tuple(iota(shape, d, indices.type.dtype) for d in range(batch))
    return (*batch_indices, *(indices[..., n] for n in range(indices.shape[-1])))


@op("OneHot", known=(1,))
def one_hot(call: Call, indices: Tensor, depth: Array, values: Tensor) -> Tensor:
    """Return one-hot vectors of length `depth`, with the off-value and the on-value from `values`.

    Negative indices count from the end.
    """
    count = int(depth.reshape(()))
    axis = call["axis"] % (indices.ndim + 1)
    positions = where(indices < 0, indices + count, indices)
    rows = iota([count if d == axis else 1 for d in range(indices.ndim + 1)], axis, positions.type.dtype)
    off, on = (values[slice(n, n + 1)].reshape(()) for n in range(2))
    return where(expand_dims(positions, axis) == rows, on, off)


@op("Compress", known=(1,))
def compress(call: Call, x: Tensor, mask: Array) -> Tensor:
    rows = np.flatnonzero(mask)
    if call["axis"] is None:
        return take(x.reshape(-1), rows, 0)
    return take(x, rows, dim_of(call["axis"], x.ndim))


@op("Unique", known=(0,))
def unique(call: Call, x: Array) -> Any:
    """Return the unique elements, sorted or by first occurrence, and NumPy's first indices, inverse and counts."""
    axis = call["axis"]
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    if not call["sorted"]:
        order = np.argsort(first)
        values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    return values, *(np.asarray(table, np.int64).reshape(-1) for table in (first, inverse, counts))


@op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(call: Call, x: Tensor, indices: Tensor) -> Tensor:
    """Select the columns of `x` (the last dim) at `indices`."""
    rows = take(x, indices.reshape(-1), -1)
    return rows.reshape(1, -1) if x.ndim == 1 else rows


_METHODS = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}


def _scatter(call: Call, x: Tensor, index: Any, updates: Tensor) -> Tensor:
    """Scatter `updates` into `x` at `index`.

    The attribute `reduction` says how an update is combined with the old element.
    """
    reduction = call["reduction"] or "none"
    if reduction not in _METHODS:
        refuse(f"'{reduction}' is not a reduction of updates", f"the reductions are {', '.join(_METHODS)}")
    return getattr(x.at[index], _METHODS[reduction])(updates)


@op("ScatterElements", "Scatter")
def scatter_elements(call: Call, x: Tensor, indices: Tensor, updates: Tensor) -> Tensor:
    axis, kind = dim_of(call["axis"], x.ndim), indices.type.dtype
    index = tuple(indices if d == axis else iota(indices.shape, d, kind) for d in range(indices.ndim))
    return _scatter(call, x, index, updates)


@op("TensorScatter")
def tensor_scatter(call: Call, cache: Tensor, update: Tensor, first: Tensor | None = None) -> Tensor:
    """Write the rows of `update` into `cache`, in each batch from row `first` on. In circular mode, rows wrap around."""
    axis, sizes = dim_of(call["axis"], cache.ndim), update.shape
    start = full(sizes[:1], 0, "i64") if first is None else first
    rows = start.reshape(-1, *[1] * axis) + iota([sizes[d] if d == axis else 1 for d in range(axis + 1)], axis, "i64")
    rows = rows % cache.shape[axis] if call["mode"] == "circular" else rows
    leading = tuple(iota(sizes[: axis + 1], d, "i64") for d in range(axis))
    return cache.at[(*leading, rows)].set(update)


enter_rows({
    "GatherND": lambda call, x, indices: x[_vectors(indices, call["batch_dims"] or 0)],
    "ScatterND": lambda call, x, indices, updates: _scatter(call, x, _vectors(indices), updates),
})  # fmt: skip
enter_rows({"NonZero": lambda call, x: np.asarray(np.nonzero(x), np.int64).reshape(max(x.ndim, 1), -1)}, known=(0,))
enter_rows({"Binarizer": lambda call, x: (x > call["threshold"]).astype(x.type.dtype)}, domain="ai.onnx.ml")
