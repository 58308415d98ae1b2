"""PyTorch's resizing of images [n, features, rows, ...], and its gradients.

Each spatial dim is resized for itself: a table [new rows, old rows] has the weight of each old row in each new one, and its transpose
is the gradient.
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
Table = Callable[[int, int, float | None, bool], Array]  # of old and new sizes, the user's scale, and align_corners


def _mixed(x: Tensor, dim: int, table: Array) -> Tensor:
    """Return x with the rows of a dim mixed by a table [new rows, old rows]."""
    return moveaxis(tensordot(x, tensor(table.astype(DTYPES[x.type.dtype])), ([dim], [1])), -1, dim)


def mixed_by_tables(x: Tensor, tables: Sequence[Array]) -> Tensor:
    """Return x with the rows of its last dims mixed by tables [new rows, old rows], one for each dim."""
    found, dtype = wide(x)
    for dim, table in enumerate(tables, start=x.ndim - len(tables)):
        found = _mixed(found, dim, table)
    return convert(found, dtype)


def _places(old: int, new: int, scale: float | None, align_corners: bool) -> Array:
    """Return where the new rows are among the old ones."""
    if align_corners:
        return np.arange(new) * ((old - 1) / max(new - 1, 1))
    return (np.arange(new) + 0.5) * (1 / scale if scale else old / new) - 0.5


def nearest_rows(old: int, new: int, scale: float | None, is_exact: bool) -> Array:
    """Return the old row of each new one; torch computes it in f32 for all types."""
    step = np.float32(1 / scale) if scale else np.float32(old) / np.float32(new)
    rows = np.arange(new, dtype=np.float32) + np.float32(0.5 if is_exact else 0)
    return np.minimum((rows * step).astype(np.int32), old - 1)


def _linear(old: int, new: int, scale: float | None, align_corners: bool) -> Array:
    places = np.maximum(_places(old, new, scale, align_corners), 0)
    low = np.minimum(places.astype(int), old - 1)
    share, rows = np.minimum(places - low, 1)[:, None], np.eye(old)
    return rows[low] * (1 - share) + rows[np.minimum(low + 1, old - 1)] * share


def _keys(distance: Array, a: float) -> Array:
    x = np.abs(distance)
    return np.where(x <= 1, cubic_near(x, a), np.where(x < 2, cubic_far(x, a), 0.0))


def _cubic(old: int, new: int, scale: float | None, align_corners: bool) -> Array:
    places = _places(old, new, scale, align_corners)
    low, rows = np.floor(places).astype(int), np.eye(old)
    taps = [(rows[np.clip(low + n, 0, old - 1)], _keys(places - low - n, -0.75)[:, None]) for n in (-1, 0, 1, 2)]
    return sum((row * weight for row, weight in taps), np.zeros((new, old)))


def _triangle(distance: Array) -> Array:
    return np.maximum(1 - np.abs(distance), 0)


def _lanczos(distance: Array) -> Array:
    return np.where(np.abs(distance) < 3, np.sinc(distance) * np.sinc(distance / 3), 0)


def _antialiased(kernel: Callable[[Array], Array], reach: int) -> Table:
    """Return the table of a kernel that is widened where the image becomes smaller, and cut at the border."""

    def table(old: int, new: int, scale: float | None, align_corners: bool) -> Array:
        step = (old - 1) / max(new - 1, 1) if align_corners else 1 / scale if scale else old / new
        width = max(step, 1.0)
        centres = step * (np.arange(new) + 0.5)
        first = np.maximum((centres - reach * width + 0.5).astype(int), 0)
        last = np.minimum((centres + reach * width + 0.5).astype(int), old)
        rows = np.arange(old)
        is_seen = (rows >= first[:, None]) & (rows < last[:, None])
        weights = np.where(is_seen, kernel((rows - centres[:, None] + 0.5) / width), 0)
        return weights / weights.sum(1, keepdims=True)

    return table


def _scales(args: Sequence[Any], count: int) -> Sequence[float | None]:
    """Return the scale of each dim: a list of the overload `vec`, else a number or None for each."""
    if not args or all(each is None for each in args):
        return [None] * count
    return args[0] if isinstance(args[0], list | tuple) else list(args)


def _output_sizes(old: Sequence[int], output_size: Sequence[int] | None, scales: Sequence[float | None]) -> Sequence[int]:  # fmt: skip
    if output_size:
        return output_size
    return [math.floor(size * (scale or 1)) for size, scale in zip(old, scales, strict=True)]


def _resized_by_tables(table: Table, x: Tensor, output_size: Sequence[int] | None = None, align_corners: bool = False, *scales: Any) -> Tensor:  # fmt: skip
    factors = _scales(scales, x.ndim - 2)
    new = _output_sizes(x.shape[2:], output_size, factors)
    return mixed_by_tables(x, [table(*each, align_corners) for each in zip(x.shape[2:], new, factors, strict=True)])


def _gradient_by_tables(table: Table, grad: Tensor, output_size: Sequence[int], input_size: Sequence[int], align_corners: bool = False, *scales: Any) -> Tensor:  # fmt: skip
    sizes = zip(input_size[2:], output_size, _scales(scales, grad.ndim - 2), strict=True)
    return mixed_by_tables(grad, [table(*each, align_corners).T for each in sizes])


def _nearest(is_exact: bool, x: Tensor, output_size: Sequence[int] | None = None, *scales: Any) -> Tensor:
    """Repeat rows, or leave rows out."""
    factors = _scales(scales, x.ndim - 2)
    new = _output_sizes(x.shape[2:], output_size, factors)
    for d, (old, size, scale) in enumerate(zip(x.shape[2:], new, factors, strict=True), start=2):
        rows = nearest_rows(old, size, scale, is_exact)
        x = repeat(x, size // old, d) if _is_repeated(rows, old) else x[(slice(None),) * d + (tensor(rows),)]
    return x


def _nearest_gradient(is_exact: bool, grad: Tensor, output_size: Sequence[int], input_size: Sequence[int], *scales: Any) -> Tensor:  # fmt: skip
    found, dtype = wide(grad)
    for d, (old, size, scale) in enumerate(zip(input_size[2:], output_size, _scales(scales, grad.ndim - 2), strict=True), start=2):  # fmt: skip
        rows = nearest_rows(old, size, scale, is_exact)
        if _is_repeated(rows, old):
            found = found.reshape(*found.shape[:d], old, size // old, *found.shape[d + 1 :]).sum(d + 1)
        else:
            found = _mixed(found, d, np.eye(old)[rows].T)
    return convert(found, dtype)


def _is_repeated(rows: Array, old: int) -> bool:
    """Whether each old row is repeated as often as each other one."""
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
enter_rows({name: partial(_resized_by_tables, table) for name, table in _TABLES.items()})
enter_rows({f"{name}_backward": partial(_gradient_by_tables, table) for name, table in _TABLES.items()})
for _name, _is_exact in (("upsample_nearest", False), ("_upsample_nearest_exact", True)):
    enter_rows({f"{_name}{count}d": partial(_nearest, _is_exact) for count in (1, 2, 3)})
    enter_rows({f"{_name}{count}d_backward": partial(_nearest_gradient, _is_exact) for count in (1, 2, 3)})
