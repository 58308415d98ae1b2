"""Writes by number."""

from __future__ import annotations

from typing import Any

from meshgen.frontend.onnx.ops.indexing import vectors
from meshgen.frontend.onnx.ops.table import Call, dim_of, op, rank_of, shape_of
from meshgen.frontend.tracer.creation import full, iota
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.frontend.tracer.updates import at

_METHODS = {"none": "set", "add": "add", "mul": "multiply", "max": "max", "min": "min"}


def _written(call: Call, x: Operand, index: Any, updates: Operand) -> Tensor:
    """With elements changed as `reduction` says."""
    reduction = call["reduction"] or "none"
    if reduction not in _METHODS:
        refuse(f"'{reduction}' is not a reduction of updates", f"the reductions are {', '.join(_METHODS)}")
    return getattr(at(tensor(x))[index], _METHODS[reduction])(updates)


@op("ScatterElements", "Scatter")
def scatter_elements(call: Call, x: Operand, indices: Operand, updates: Operand) -> Tensor:
    axis, numbers = dim_of(call["axis"], rank_of(x)), tensor(indices)
    index = tuple(numbers if d == axis else iota(numbers.shape, d, numbers.type.dtype) for d in range(numbers.ndim))
    return _written(call, x, index, updates)


@op("ScatterND")
def scatter_nd(call: Call, x: Operand, indices: Operand, updates: Operand) -> Tensor:
    return _written(call, x, vectors(indices), updates)


@op("TensorScatter")
def tensor_scatter(call: Call, cache: Operand, update: Operand, first: Operand = None) -> Tensor:
    """Rows of a cache from a number per batch on; `circular` goes on at its beginning."""
    axis, sizes = dim_of(call["axis"], rank_of(cache)), shape_of(update)
    start = full(sizes[:1], 0, "i64") if first is None else first
    rows = reshape(start, (-1, *[1] * axis)) + iota(
        [sizes[d] if d == axis else 1 for d in range(axis + 1)], axis, "i64"
    )
    rows = rows % shape_of(cache)[axis] if call["mode"] == "circular" else rows
    lead = tuple(iota(sizes[: axis + 1], d, "i64") for d in range(axis))
    return at(tensor(cache))[(*lead, rows)].set(update)
