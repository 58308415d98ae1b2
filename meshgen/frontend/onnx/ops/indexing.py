"""Reads by number, and what depends on where elements are."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.frontend.onnx.ops.table import Array, Call, dim_of, enter_rows, kind_of, op, rank_of, shape_of
from meshgen.frontend.tracer.creation import iota
from meshgen.frontend.tracer.indexing import getitem, take, take_along_axis
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.shapes import expand_dims, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor


@op("Gather")
def gather(call: Call, x: Operand, indices: Operand) -> Tensor:
    axis = dim_of(call["axis"], rank_of(x))
    if not isinstance(indices, np.ndarray):
        return take(x, indices, axis)
    rows = np.where(indices < 0, indices + shape_of(x)[axis], indices)
    steps = {*np.diff(rows).tolist()} if rows.ndim == 1 else set[int]()
    if not rows.ndim:
        chosen: Any = int(rows)
    elif rows.ndim == 1 and rows.size and len(steps) <= 1 and min(steps, default=1) > 0:
        chosen = slice(int(rows[0]), int(rows[-1]) + 1, min(steps, default=1))  # neighbours: no look-up
    else:
        chosen = rows
    return getitem(tensor(x), (*[slice(None)] * axis, chosen))


@op("GatherElements")
def gather_elements(call: Call, x: Operand, indices: Operand) -> Tensor:
    """Along one dim by number; of the others as many rows as there are numbers."""
    axis = dim_of(call["axis"], rank_of(x))
    cut = tuple(slice(None) if d == axis else slice(size) for d, size in enumerate(shape_of(indices)))
    return take_along_axis(getitem(tensor(x), cut), indices, axis)


def vectors(indices: Operand, batch: int = 0) -> tuple[Tensor, ...]:
    """The numbers in the last dim of indices, one tensor for each; before them the numbers of batches."""
    indices = tensor(indices)
    shape = indices.shape[:-1]
    own = tuple(iota(shape, d, indices.type.dtype) for d in range(batch))
    return (*own, *(getitem(indices, (..., n)) for n in range(indices.shape[-1])))


@op("OneHot", known=(1,))
def one_hot(call: Call, indices: Operand, depth: Array, values: Operand) -> Tensor:
    """The second value where a number is that of the row, the first elsewhere; negative numbers count from the end."""
    count, indices = int(depth.reshape(())), tensor(indices)
    axis = call["axis"] % (indices.ndim + 1)
    places = where(indices < 0, indices + count, indices)
    rows = iota([count if d == axis else 1 for d in range(indices.ndim + 1)], axis, places.type.dtype)
    off, on = (reshape(getitem(tensor(values), slice(n, n + 1)), ()) for n in range(2))
    return where(expand_dims(places, axis) == rows, on, off)


@op("Compress", known=(1,))
def compress(call: Call, x: Operand, chosen: Array) -> Tensor:
    rows = np.flatnonzero(chosen)
    if call["axis"] is None:
        return take(reshape(x, -1), rows, 0)
    return take(x, rows, dim_of(call["axis"], rank_of(x)))


@op("Unique", known=(0,))
def unique(call: Call, x: Array) -> Any:
    """Sorted, or in the order in which elements occur first."""
    axis = call["axis"]
    values, first, inverse, counts = np.unique(x, True, True, True, axis=axis)
    if not call["sorted"]:
        order = np.argsort(first)
        values, first, counts = np.take(values, order, axis or 0), first[order], counts[order]
        inverse = np.argsort(order)[inverse]
    found = (values, *(np.asarray(each, np.int64).reshape(-1) for each in (first, inverse, counts)))
    return found[: call.results]


@op("ArrayFeatureExtractor", domain="ai.onnx.ml")
def array_feature_extractor(call: Call, x: Operand, indices: Operand) -> Tensor:
    """Columns by number."""
    rows = take(x, reshape(indices, -1), -1)
    return reshape(rows, (1, -1)) if rank_of(x) == 1 else rows


enter_rows({"GatherND": lambda call, x, indices: getitem(tensor(x), vectors(indices, call["batch_dims"] or 0))})
enter_rows({"NonZero": lambda call, x: np.asarray(np.nonzero(x), np.int64).reshape(max(x.ndim, 1), -1)}, known=(0,))
enter_rows({"Binarizer": lambda call, x: convert(tensor(x) > call["threshold"], kind_of(x))}, domain="ai.onnx.ml")
