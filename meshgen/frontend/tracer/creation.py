"""Traced operations that create tensors: constants, ranges, triangular masks, coordinate grids."""

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
    """Return a tensor in which each element is its own index along `axis`: iota((2, 3), 1) is [[0, 1, 2], [0, 1, 2]]."""
    sizes = sizes_of(shape)
    return emit("iota", [], TensorType(sizes, dtype_of(dtype)), {"dim": axis_of(axis, len(sizes))})


@traced
def arange(start: float, stop: float | None = None, step: float = 1, dtype: Any = None, *, device: Any = None) -> Tensor:  # fmt: skip
    """Return start, start + step, ... below stop, as i32, or as f32 if an argument is a float. `arange(n)` starts at 0."""
    start, stop = (0, start) if stop is None else (start, stop)
    bounds: Any = (start, stop, step)
    if any(isinstance(bound, Tensor) for bound in bounds) or step == 0:
        refuse(f"arange({start}, {stop}, {step}): the bounds must be constants while the function is traced, and the step must not be 0")  # fmt: skip
    is_whole = all(float(bound).is_integer() and not isinstance(bound, float) for bound in bounds)
    kind = dtype_of(dtype) if dtype is not None else "i32" if is_whole else "f32"
    if not is_whole or is_inexact(kind):
        return tensor(np.arange(*bounds).astype(DTYPES[kind]))
    numbers = iota((len(range(*bounds)),), 0, kind)
    numbers = numbers if step == 1 else numbers * step
    return numbers if start == 0 else numbers + start


@traced
def linspace(start: float, stop: float, num: int = 50, endpoint: bool = True, dtype: Any = None, *, device: Any = None) -> Tensor:  # fmt: skip
    """Return `num` equally spaced numbers from `start` to `stop`. Without `endpoint`, `stop` is excluded."""
    if isinstance(start, Tensor) or isinstance(stop, Tensor):
        counted = iota((num,), 0, "f32") / max(num - endpoint, 1)
        return tensor(start + (stop - start) * counted)
    kind = dtype_of(dtype) if dtype is not None else "c64" if isinstance(start + stop, complex) else "f32"
    return tensor(np.linspace(start, stop, num, endpoint).astype(DTYPES[kind]))


@traced
def full(shape: int | Sequence[int], fill_value: Operand, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Return a tensor filled with `fill_value`; the default dtype is the dtype of `fill_value`."""
    return broadcast(tensor(fill_value, None if dtype is None else dtype_of(dtype)), sizes_of(shape))


@traced
def zeros(shape: int | Sequence[int], dtype: Any = None, *, device: Any = None) -> Tensor:
    """Return a tensor filled with 0; the default dtype is f32."""
    return full(shape, 0, "f32" if dtype is None else dtype)


@traced
def ones(shape: int | Sequence[int], dtype: Any = None, *, device: Any = None) -> Tensor:
    """Return a tensor filled with 1; the default dtype is f32."""
    return full(shape, 1, "f32" if dtype is None else dtype)


@traced
def empty(shape: int | Sequence[int], dtype: Any = None, *, device: Any = None) -> Tensor:
    """Return a tensor with unspecified contents (in fact zeros, as in JAX); the default dtype is f32."""
    return zeros(shape, dtype)


@traced
def full_like(x: Operand, fill_value: Operand, dtype: Any = None, shape: Sequence[int] | None = None, *, device: Any = None) -> Tensor:  # fmt: skip
    """Return a tensor filled with `fill_value`, by default of the shape and dtype of `x`."""
    x = tensor(x)
    return full(x.shape if shape is None else shape, fill_value, x.type.dtype if dtype is None else dtype)


@traced
def zeros_like(x: Operand, dtype: Any = None, shape: Sequence[int] | None = None, *, device: Any = None) -> Tensor:
    """Return a tensor filled with 0, by default of the shape and dtype of `x`."""
    return full_like(x, 0, dtype, shape)


@traced
def ones_like(x: Operand, dtype: Any = None, shape: Sequence[int] | None = None, *, device: Any = None) -> Tensor:
    """Return a tensor filled with 1, by default of the shape and dtype of `x`."""
    return full_like(x, 1, dtype, shape)


@traced
def empty_like(x: Operand, dtype: Any = None, shape: Sequence[int] | None = None, *, device: Any = None) -> Tensor:
    """Return a tensor with unspecified contents (in fact zeros), by default of the shape and dtype of `x`."""
    return zeros_like(x, dtype, shape)


@named("eye", "identity")
def eye(n_rows: int, n_cols: int | None = None, k: int = 0, dtype: Any = None, *, device: Any = None) -> Tensor:
    """Return a matrix with 1 on the k-th diagonal and 0 elsewhere."""
    rows, columns = _row_and_column_indices((n_rows, n_rows if n_cols is None else n_cols))
    return convert(columns - rows == k, "f32" if dtype is None else dtype_of(dtype))


def _row_and_column_indices(shape: Sequence[int]) -> tuple[Tensor, Tensor]:
    """Return the row and the column index of each element of a matrix."""
    return iota(shape, 0), iota(shape, 1)


@traced
def tri(n_rows: int, n_cols: int | None = None, k: int = 0, dtype: Any = None) -> Tensor:
    """Return a matrix with 1 at and below the k-th diagonal and 0 above it."""
    rows, columns = _row_and_column_indices((n_rows, n_rows if n_cols is None else n_cols))
    return convert(columns - rows <= k, "f32" if dtype is None else dtype_of(dtype))


@traced
def tril(x: Operand, k: int = 0) -> Tensor:
    """Return the matrices in the last two dims of `x` with zeros above the k-th diagonal."""
    return _triangle(x, lambda below: below <= k)


@traced
def triu(x: Operand, k: int = 0) -> Tensor:
    """Return the matrices in the last two dims of `x` with zeros below the k-th diagonal."""
    return _triangle(x, lambda below: below >= k)


def _triangle(x: Operand, is_kept: Any) -> Tensor:
    x = tensor(x)
    if x.ndim < 2:
        refuse(f"{x.type} is not a matrix: it has fewer than two dims")
    rows, columns = _row_and_column_indices(x.shape[-2:])
    return where(is_kept(columns - rows), x, tensor(0, x.type.dtype))


@traced
def meshgrid(*axes: Operand, indexing: str = "xy") -> list[Tensor]:
    """Return for each of the vectors `axes` a tensor over the grid of all vectors, with the coordinates of that vector.

    With indexing `xy`, the first vector varies along dim 1 (columns); with `ij`, along dim 0 (rows).
    """
    flat = [reshape(x, -1) for x in axes]
    order = [*range(len(flat))]
    if indexing == "xy" and len(flat) > 1:
        order[:2] = 1, 0
    shape = [flat[i].shape[0] for i in order]
    return [broadcast(reshape(x, [-1 if at == i else 1 for at in order]), shape) for i, x in enumerate(flat)]


@traced
def diag(x: Operand, k: int = 0) -> Tensor:
    """Return a matrix with the elements of a vector on its k-th diagonal, or the k-th diagonal of a matrix."""
    x = tensor(x)
    if x.ndim == 2:
        return diagonal(x, k)
    if x.ndim != 1:
        refuse(f"diag takes a vector or a matrix, not {x.type}")
    size = x.shape[0] + abs(k)
    rows, columns = _row_and_column_indices((size, size))
    padding = (max(k, 0), max(-k, 0))
    padded = emit(
        "pad",
        [x, tensor(0, x.type.dtype)],
        x.type.with_shape((size,)),
        {"low": padding[:1], "high": padding[1:], "interior": (0,)},
    )
    return where(columns - rows == k, broadcast(padded, (size, size)), tensor(0, x.type.dtype))


@traced
def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the row and column indices, as i32, of the elements at and below the k-th diagonal of an n x m matrix."""
    rows, columns = np.tril_indices(n, k, m)
    return tensor(rows.astype(np.int32)), tensor(columns.astype(np.int32))


@traced
def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Tensor, Tensor]:
    """Return the row and column indices, as i32, of the elements at and above the k-th diagonal of an n x m matrix."""
    rows, columns = np.triu_indices(n, k, m)
    return tensor(rows.astype(np.int32)), tensor(columns.astype(np.int32))
