"""Traced operations that create tensors: filled, counted, triangles, grids."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.frontend.tracer.indexing import diagonal
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import axis_of, broadcast, convert, dtype_of, emit, sizes_of, tensor
from meshgen.frontend.tracer.recording import named, refuse, traced
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import DTYPES, TensorType, is_inexact


@traced
def iota(shape: Sequence[int], axis: int = 0, dtype: Any = "i32") -> Tensor:
    """The row number along `axis` in every element."""
    sizes = sizes_of(shape)
    return emit("iota", [], TensorType(sizes, dtype_of(dtype)), {"dim": axis_of(axis, len(sizes))})


@traced
def arange(start: float, stop: float | None = None, step: float = 1, dtype: Any = None, *, device: Any = None) -> Tensor:  # fmt: skip
    """start, start + step, ... below stop; `arange(n)` counts from 0. Of i32, or f32 where one of them is a float."""
    start, stop = (0, start) if stop is None else (start, stop)
    bounds: Any = (start, stop, step)
    if any(isinstance(each, Tensor) for each in bounds) or step == 0:
        refuse(f"arange({start}, {stop}, {step}): the bounds are numbers known while the function is traced, the step is not 0")  # fmt: skip
    is_whole = all(float(each).is_integer() and not isinstance(each, float) for each in bounds)
    kind = dtype_of(dtype) if dtype is not None else "i32" if is_whole else "f32"
    if not is_whole or is_inexact(kind):
        return tensor(np.arange(*bounds).astype(DTYPES[kind]))
    numbers = iota((len(range(*bounds)),), 0, kind)
    numbers = numbers if step == 1 else numbers * step
    return numbers if start == 0 else numbers + start


@traced
def linspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: Any = None, *, device: Any = None) -> Tensor:  # fmt: skip
    """`num` numbers from start to stop, evenly apart; without `endpoint`, stop is the one after the last."""
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        counted = iota((num,), 0, "f32") / max(num - endpoint, 1)
        return tensor(start + (stop - start) * counted)
    kind = dtype_of(dtype) if dtype is not None else "c64" if isinstance(start + stop, complex) else "f32"
    return tensor(np.linspace(start, stop, num, endpoint).astype(DTYPES[kind]))


@traced
def full(shape: int | Sequence[int], fill_value: Operand, dtype: Any = None, *, device: Any = None) -> Tensor:
    """`fill_value` everywhere; of its element type unless `dtype` says otherwise."""
    return broadcast(tensor(fill_value, None if dtype is None else dtype_of(dtype)), sizes_of(shape))


@traced
def zeros(shape: int | Sequence[int], dtype: Any = None, *, device: Any = None) -> Tensor:
    """0 everywhere, of f32 unless `dtype` says otherwise."""
    return full(shape, 0, "f32" if dtype is None else dtype)


@traced
def ones(shape: int | Sequence[int], dtype: Any = None, *, device: Any = None) -> Tensor:
    """1 everywhere, of f32 unless `dtype` says otherwise."""
    return full(shape, 1, "f32" if dtype is None else dtype)


@traced
def empty(shape: int | Sequence[int], dtype: Any = None, *, device: Any = None) -> Tensor:
    """Elements that are going to be replaced: zeros, as in JAX."""
    return zeros(shape, dtype)


@traced
def full_like(x: Operand, fill_value: Operand, dtype: Any = None, shape: Sequence[int] | None = None, *, device: Any = None) -> Tensor:  # fmt: skip
    """`fill_value` everywhere, in the shape and type of another tensor."""
    x = tensor(x)
    return full(x.shape if shape is None else shape, fill_value, x.type.dtype if dtype is None else dtype)


@traced
def zeros_like(x: Operand, dtype: Any = None, shape: Sequence[int] | None = None, *, device: Any = None) -> Tensor:
    """0 everywhere, in the shape and type of another tensor."""
    return full_like(x, 0, dtype, shape)


@traced
def ones_like(x: Operand, dtype: Any = None, shape: Sequence[int] | None = None, *, device: Any = None) -> Tensor:
    """1 everywhere, in the shape and type of another tensor."""
    return full_like(x, 1, dtype, shape)


@traced
def empty_like(x: Operand, dtype: Any = None, shape: Sequence[int] | None = None, *, device: Any = None) -> Tensor:
    """Elements that are going to be replaced, in the shape and type of another tensor: zeros."""
    return zeros_like(x, dtype, shape)


@named("eye", "identity")
def eye(n_rows: int, n_cols: int | None = None, k: int = 0, dtype: Any = None, *, device: Any = None) -> Tensor:
    """1 on the k-th diagonal, 0 elsewhere."""
    rows, columns = _places((n_rows, n_rows if n_cols is None else n_cols))
    return convert(columns - rows == k, "f32" if dtype is None else dtype_of(dtype))


def _places(shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Row and column numbers of matrices."""
    return iota(shape, 0), iota(shape, 1)


@traced
def tri(n_rows: int, n_cols: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """1 at and below the k-th diagonal, 0 above."""
    rows, columns = _places((n_rows, n_rows if n_cols is None else n_cols))
    return convert(columns - rows <= k, "f32" if dtype is None else dtype_of(dtype))


@traced
def tril(x: Operand, k: int = 0) -> Tensor:
    """Matrices with zeros above the k-th diagonal."""
    return _triangle(x, lambda below: below <= k)


@traced
def triu(x: Operand, k: int = 0) -> Tensor:
    """Matrices with zeros below the k-th diagonal."""
    return _triangle(x, lambda below: below >= k)


def _triangle(x: Operand, kept: Any) -> Tensor:
    x = tensor(x)
    if x.ndim < 2:
        refuse(f"{x.type} is not a matrix: it has fewer than two dims")
    rows, columns = _places(x.shape[-2:])
    return where(kept(columns - rows), x, tensor(0, x.type.dtype))


@traced
def meshgrid(*axes: Operand, indexing: str = "xy") -> list[Tensor]:
    """Coordinates over a grid of 1-d tensors: the first along columns with `xy`, along rows with `ij`."""
    flat = [reshape(x, -1) for x in axes]
    order = [*range(len(flat))]
    if indexing == "xy" and len(flat) > 1:
        order[:2] = 1, 0
    shape = [flat[i].shape[0] for i in order]
    return [broadcast(reshape(x, [-1 if at == i else 1 for at in order]), shape) for i, x in enumerate(flat)]


@traced
def diag(x: Operand, k: int = 0) -> Tensor:
    """A matrix with these elements on its k-th diagonal; of a matrix its diagonal."""
    x = tensor(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        refuse(f"diag takes a vector or a matrix, not {x.type}")
    size = x.shape[0] + abs(k)
    rows, columns = _places((size, size))
    edge = (max(k, 0), max(-k, 0))
    along = emit(
        "pad",
        [x, tensor(0, x.type.dtype)],
        x.type.with_shape((size,)),
        {"low": edge[:1], "high": edge[1:], "interior": (0,)},
    )
    return where(columns - rows == k, broadcast(along, (size, size)), tensor(0, x.type.dtype))


@traced
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """Row and column numbers, as i32, of the elements at and below the k-th diagonal of an n x m matrix."""
    rows, columns = np.tril_indices(n, k, m)
    return tensor(rows.astype(np.int32)), tensor(columns.astype(np.int32))


@traced
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """Row and column numbers, as i32, of the elements at and above the k-th diagonal of an n x m matrix."""
    rows, columns = np.triu_indices(n, k, m)
    return tensor(rows.astype(np.int32)), tensor(columns.astype(np.int32))
