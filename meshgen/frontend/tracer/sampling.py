"""Samples of images at places that are data, as `grid_sample` of PyTorch and ONNX takes them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from meshgen.frontend.tracer.creation import iota
from meshgen.frontend.tracer.elementwise import abs_, clip
from meshgen.frontend.tracer.indexing import getitem
from meshgen.frontend.tracer.logic import logical_and, where
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.rounding import floor, remainder, round_
from meshgen.frontend.tracer.shapes import expand_dims, moveaxis
from meshgen.frontend.tracer.tensor import Operand, Tensor


def grid_samples(x: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool) -> Tensor:
    """x [n, c, ...spatial] at places [n, ...out, dims], from -1 to 1, the last dim first: [n, c, ...out].

    `mode` is nearest, linear or cubic; `padding`, what is outside of the image, zeros, border or reflection.
    """
    sizes = x.shape[2:]
    places = [_denormalised(grid[..., len(sizes) - 1 - d], size, align_corners) for d, size in enumerate(sizes)]
    if mode == "nearest":
        places = [round_(place) for place in places]
    places = [_padded_place(place, size, align_corners, padding) for place, size in zip(places, sizes, strict=True)]
    taps = [_taps(place, mode) for place in places]
    total: Tensor | None = None
    for chosen in itertools.product(*taps):
        rows = [_row_in_image(row, size, align_corners, padding) for (row, _), size in zip(chosen, sizes, strict=True)]
        value = _sampled(x, [row for row, _ in rows])
        weight: Operand = np.ones(rows[0][0].shape, np.float32)
        for (_, own), (_, is_inside) in zip(chosen, rows, strict=True):
            weight = weight * own if is_inside is None else where(is_inside, weight * own, 0)
        part = value * convert(expand_dims(tensor(weight), 1), x.type.dtype)
        total = part if total is None else total + part
    assert total is not None
    return total


def _denormalised(place: Tensor, size: int, align_corners: bool) -> Tensor:
    return (place + 1) / 2 * (size - 1) if align_corners else ((place + 1) * size - 1) / 2


def _padded_place(place: Tensor, size: int, align_corners: bool, padding: str) -> Tensor:
    """A place moved into the image: to the border, or reflected at it."""
    if padding == "border":
        return clip(place, 0, size - 1)
    return _reflected(place, size, align_corners) if padding == "reflection" else place


def _reflected(place: Tensor, size: int, align_corners: bool) -> Tensor:
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    span = max(high - low, 1e-6)
    return high - abs_(remainder(place - low, 2 * span) - span)


def _taps(place: Tensor, mode: str) -> list[tuple[Tensor, Operand]]:
    """The rows near a place along one dim, as floats, each with its weight."""
    if mode == "nearest":
        return [(place, np.ones((), np.float32))]
    first = floor(place)
    apart = place - first
    if mode == "linear":
        return [(first, 1 - apart), (first + 1, apart)]
    return [(first + n, _cubic(abs_(apart - n), near=n in (0, 1))) for n in (-1, 0, 1, 2)]


def _cubic(apart: Tensor, near: bool, a: float = -0.75) -> Tensor:
    """The weight of a row at a distance below 1, or from 1 to 2 (Keys, IEEE TASSP 29(6), 1981)."""
    if near:
        return (apart * (a + 2) - (a + 3)) * apart * apart + 1
    return ((apart * a - 5 * a) * apart + 8 * a) * apart - 4 * a


def _row_in_image(row: Tensor, size: int, align_corners: bool, padding: str) -> tuple[Tensor, Tensor | None]:
    """A row's number inside the image, and whether it counts (None: always)."""
    is_inside = logical_and(row >= 0, row <= size - 1) if padding == "zeros" else None
    row = _reflected(row, size, align_corners) if padding == "reflection" else row
    return convert(clip(row, 0, size - 1), "i32"), is_inside


def _sampled(x: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """x [n, c, ...spatial] at rows [n, ...out] of each spatial dim: [n, c, ...out]."""
    batch = iota(rows[0].shape, 0, "i32")
    return moveaxis(getitem(x, (batch, slice(None), *rows)), -1, 1)
