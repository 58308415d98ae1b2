"""PyTorch resizing of images [n, features, rows, ...], and its gradients.

The spatial dims are resized one after the other. A table [new rows, old rows] has the weight of each old row in each
new row; the gradient uses the transposed table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from meshgen.frontend.torch.ops.table import enter_rows
from meshgen.frontend.torch.promotion import wide
from meshgen.frontend.tracer.joining import repeat
from meshgen.frontend.tracer.linear import tensordot
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.sampling import cubic_far, cubic_near
from meshgen.frontend.tracer.shapes import moveaxis
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import DTYPES

Array = np.ndarray[Any, Any]
Scales = Sequence[float | None] | None
# Returns the table of weights for: old size, new size, the user's scale, `align_corners`.
Table = Callable[[int, int, float | None, bool], Array]


def _multiply_by_table(x: Tensor, dim: int, table: Array) -> Tensor:
    """Replace the rows of a dim of `x` by their sums with the weights `table` [new rows, old rows]."""
    return moveaxis(tensordot(x, tensor(table.astype(DTYPES[x.type.dtype])), ([dim], [1])), -1, dim)


def multiply_by_tables(x: Tensor, tables: Sequence[Array]) -> Tensor:
    """Apply a table [new rows, old rows] to each of the last dims of `x`; 16-bit floats are computed in f32."""
    result, dtype = wide(x)
    for dim, table in enumerate(tables, start=x.ndim - len(tables)):
        result = _multiply_by_table(result, dim, table)
    return convert(result, dtype)


def _old_positions(old: int, new: int, scale: float | None, align_corners: bool) -> Array:
    """Return the fractional position of each new row among the old rows."""
    if align_corners:
        return np.arange(new) * ((old - 1) / max(new - 1, 1))
    return (np.arange(new) + 0.5) * (1 / scale if scale else old / new) - 0.5


def nearest_rows(old: int, new: int, scale: float | None, is_exact: bool) -> Array:
    """Return the index of the nearest old row for each new row.

    Positions are computed in f32 for all dtypes, as in torch.
    """
    step = np.float32(1 / scale) if scale else np.float32(old) / np.float32(new)
    rows = np.arange(new, dtype=np.float32) + np.float32(0.5 if is_exact else 0)
    return np.minimum((rows * step).astype(np.int32), old - 1)


def _linear(old: int, new: int, scale: float | None, align_corners: bool) -> Array:
    positions = np.maximum(_old_positions(old, new, scale, align_corners), 0)
    low = np.minimum(positions.astype(int), old - 1)
    share, rows = np.minimum(positions - low, 1)[:, None], np.eye(old)
    return rows[low] * (1 - share) + rows[np.minimum(low + 1, old - 1)] * share


def _keys(distance: Array, a: float) -> Array:
    x = np.abs(distance)
    return np.where(x <= 1, cubic_near(x, a), np.where(x < 2, cubic_far(x, a), 0.0))


def _cubic(old: int, new: int, scale: float | None, align_corners: bool) -> Array:
    positions = _old_positions(old, new, scale, align_corners)
    low, rows = np.floor(positions).astype(int), np.eye(old)
    taps = [(rows[np.clip(low + n, 0, old - 1)], _keys(positions - low - n, -0.75)[:, None]) for n in (-1, 0, 1, 2)]
    return sum((row * weight for row, weight in taps), np.zeros((new, old)))


def _triangle(distance: Array) -> Array:
    return np.maximum(1 - np.abs(distance), 0)


def _lanczos(distance: Array) -> Array:
    return np.where(np.abs(distance) < 3, np.sinc(distance) * np.sinc(distance / 3), 0)


def _antialiased(kernel: Callable[[Array], Array], reach: int) -> Table:
    """Return a `Table` function for an interpolation kernel that extends `reach` rows to both sides.

    The kernel is stretched if the image becomes smaller, and clipped at the border.
    """

    def table(old: int, new: int, scale: float | None, align_corners: bool) -> Array:
        step = (old - 1) / max(new - 1, 1) if align_corners else 1 / scale if scale else old / new
        width = max(step, 1.0)
        centers = step * (np.arange(new) + 0.5)
        first = np.maximum((centers - reach * width + 0.5).astype(int), 0)
        last = np.minimum((centers + reach * width + 0.5).astype(int), old)
        rows = np.arange(old)
        is_covered = (rows >= first[:, None]) & (rows < last[:, None])
        weights = np.where(is_covered, kernel((rows - centers[:, None] + 0.5) / width), 0)
        return weights / weights.sum(1, keepdims=True)

    return table


def _scales(args: Sequence[Any], count: int) -> Sequence[float | None]:
    """Return the scale of each of `count` dims, or None for a dim whose scale the call does not specify.

    The overload `vec` passes one list, other overloads pass one argument per dim.
    """
    if not args or all(scale is None for scale in args):
        return [None] * count
    return args[0] if isinstance(args[0], list | tuple) else list(args)


def _output_sizes(old: Sequence[int], output_size: Sequence[int] | None, scales: Sequence[float | None]) -> Sequence[int]:  # fmt: skip
    if output_size:
        return output_size
    return [math.floor(size * (scale or 1)) for size, scale in zip(old, scales, strict=True)]


def _resize_by_tables(table: Table, x: Tensor, output_size: Sequence[int] | None = None, align_corners: bool = False, *scales: Any) -> Tensor:  # fmt: skip
    factors = _scales(scales, x.ndim - 2)
    new = _output_sizes(x.shape[2:], output_size, factors)
    return multiply_by_tables(
        x, [table(*dim_sizes, align_corners) for dim_sizes in zip(x.shape[2:], new, factors, strict=True)]
    )


def _gradient_by_tables(table: Table, grad: Tensor, output_size: Sequence[int], input_size: Sequence[int], align_corners: bool = False, *scales: Any) -> Tensor:  # fmt: skip
    sizes = zip(input_size[2:], output_size, _scales(scales, grad.ndim - 2), strict=True)
    return multiply_by_tables(grad, [table(*dim_sizes, align_corners).T for dim_sizes in sizes])


def _nearest(is_exact: bool, x: Tensor, output_size: Sequence[int] | None = None, *scales: Any) -> Tensor:
    """Resize by selecting the nearest rows. If each row is selected equally often, all rows are repeated instead."""
    factors = _scales(scales, x.ndim - 2)
    new = _output_sizes(x.shape[2:], output_size, factors)
    for d, (old, size, scale) in enumerate(zip(x.shape[2:], new, factors, strict=True), start=2):
        rows = nearest_rows(old, size, scale, is_exact)
        x = repeat(x, size // old, d) if _is_repeated(rows, old) else x[(slice(None),) * d + (tensor(rows),)]
    return x


def _nearest_gradient(is_exact: bool, grad: Tensor, output_size: Sequence[int], input_size: Sequence[int], *scales: Any) -> Tensor:  # fmt: skip
    gradient, dtype = wide(grad)
    for d, (old, size, scale) in enumerate(zip(input_size[2:], output_size, _scales(scales, grad.ndim - 2), strict=True), start=2):  # fmt: skip
        rows = nearest_rows(old, size, scale, is_exact)
        if _is_repeated(rows, old):
            gradient = gradient.reshape(*gradient.shape[:d], old, size // old, *gradient.shape[d + 1 :]).sum(d + 1)
        else:
            gradient = _multiply_by_table(gradient, d, np.eye(old)[rows].T)
    return convert(gradient, dtype)


def _is_repeated(rows: Array, old: int) -> bool:
    """Whether `rows` repeats each of the `old` rows equally often, in order."""
    return len(rows) % old == 0 and np.array_equal(rows, np.repeat(np.arange(old), len(rows) // old))


_TABLES = {
    "upsample_linear1d": _linear,
    "upsample_bilinear2d": _linear,
    "upsample_trilinear3d": _linear,
    "upsample_bicubic2d": _cubic,
    "_upsample_bilinear2d_aa": _antialiased(_triangle, 1),
    "_upsample_bicubic2d_aa": _antialiased(lambda x: _keys(x, -0.5), 2),
    "_upsample_lanczos2d_aa": _antialiased(_lanczos, 3),
}
enter_rows({name: partial(_resize_by_tables, table) for name, table in _TABLES.items()})
enter_rows({f"{name}_backward": partial(_gradient_by_tables, table) for name, table in _TABLES.items()})
for _name, _is_exact in (("upsample_nearest", False), ("_upsample_nearest_exact", True)):
    enter_rows({f"{_name}{count}d": partial(_nearest, _is_exact) for count in (1, 2, 3)})
    enter_rows({f"{_name}{count}d_backward": partial(_nearest_gradient, _is_exact) for count in (1, 2, 3)})
