"""Samples of images at places that are data, as `grid_sample` of PyTorch and ONNX takes them, and their gradients."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from meshgen.frontend.tracer.creation import iota, zeros
from meshgen.frontend.tracer.elementwise import abs_, add, clip, multiply, sign
from meshgen.frontend.tracer.indexing import getitem
from meshgen.frontend.tracer.joining import concatenate
from meshgen.frontend.tracer.logic import logical_and, where
from meshgen.frontend.tracer.operands import broadcast, convert, tensor
from meshgen.frontend.tracer.rounding import floor, remainder, round_
from meshgen.frontend.tracer.shapes import expand_dims, moveaxis
from meshgen.frontend.tracer.tensor import Operand, Tensor


@dataclass(frozen=True)
class _Tap:
    """One row that a sample reads along a dim, [n, ...out]: its number inside the image, its weight, and the weight's derivative by the grid."""

    row: Tensor
    weight: Tensor
    slope: Tensor


def grid_samples(x: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool) -> Tensor:
    """Return x [n, c, ...spatial] at places [n, ...out, dims], from -1 to 1, the last dim first: [n, c, ...out].

    `mode` is nearest, linear or cubic; `padding`, what is outside of the image, zeros, border or reflection.
    """
    parts = [
        _sampled(x, [each.row for each in taps]) * _per_feature([each.weight for each in taps], x)
        for taps in _taps_of_samples(x, grid, mode, padding, align_corners)
    ]
    return reduce(add, parts)


def grid_samples_gradient(grad: Tensor, x: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the gradients of the image and the grid."""
    image = moveaxis(zeros(x.shape, x.type.dtype), 1, -1)
    batch = iota(grid.shape[:-1], 0, "i32")
    by_dim: list[list[Tensor]] = [[] for _ in x.shape[2:]]
    for taps in _taps_of_samples(x, grid, mode, padding, align_corners):
        rows, weights = [each.row for each in taps], [each.weight for each in taps]
        share = moveaxis(grad * _per_feature(weights, x), 1, -1)
        image = image.at[(batch, *rows)].add(share)
        seen = convert((grad * _sampled(x, rows)).sum(1), grid.type.dtype)
        for d, own in enumerate(taps):
            by_dim[d].append(seen * reduce(multiply, [own.slope, *weights[:d], *weights[d + 1 :]]))
    slopes = [expand_dims(reduce(add, parts), -1) for parts in by_dim[::-1]]
    return moveaxis(image, -1, 1), concatenate(slopes, -1)


def _per_feature(weights: Sequence[Tensor], x: Tensor) -> Tensor:
    """Return the product of weights [n, ...out] as [n, 1, ...out]."""
    return convert(expand_dims(reduce(multiply, weights), 1), x.type.dtype)


def _taps_of_samples(x: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool) -> list[tuple[_Tap, ...]]:
    """Return for each element that a sample reads a tap along each spatial dim."""
    sizes = x.shape[2:]
    along = [_taps(grid[..., len(sizes) - 1 - d], size, mode, padding, align_corners) for d, size in enumerate(sizes)]
    return [*itertools.product(*along)]


def _taps(grid: Tensor, size: int, mode: str, padding: str, align_corners: bool) -> list[_Tap]:
    place = (grid + 1) / 2 * (size - 1) if align_corners else ((grid + 1) * size - 1) / 2
    place, slope = (round_(place) if mode == "nearest" else place), tensor(((size - 1) if align_corners else size) / 2, grid.type.dtype)  # fmt: skip
    if mode != "cubic":  # of a cubic sample each row is padded for itself
        place, turned = _padded_place(place, size, align_corners, padding)
        slope = slope * turned
    taps: list[_Tap] = []
    for row, weight, change in _weights(place, mode):
        is_inside = logical_and(row >= 0, row <= size - 1) if padding == "zeros" else None
        row = _reflected(row, size, align_corners)[0] if padding == "reflection" else row
        weights = [broadcast(tensor(each, grid.type.dtype), place.shape) for each in (weight, change * slope)]
        weight, change = weights if is_inside is None else [where(is_inside, each, 0) for each in weights]
        taps.append(_Tap(convert(clip(row, 0, size - 1), "i32"), weight, change))
    return taps


def _padded_place(place: Tensor, size: int, align_corners: bool, padding: str) -> tuple[Tensor, Operand]:
    """Return a place moved into the image, to the border or reflected at it, and the derivative of that."""
    if padding == "border":
        is_inside = logical_and(place > 0, place < size - 1)
        return clip(place, 0, size - 1), convert(is_inside, place.type.dtype)
    return _reflected(place, size, align_corners) if padding == "reflection" else (place, np.ones((), np.float32))


def _reflected(place: Tensor, size: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    span = max(high - low, 1e-6)
    apart = remainder(place - low, 2 * span) - span
    return high - abs_(apart), -sign(apart)


def _weights(place: Tensor, mode: str) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return the rows near a place along one dim, as floats, each with its weight and the derivative of the weight by the place."""
    one = tensor(1.0, place.type.dtype)
    if mode == "nearest":
        return [(place, one, 0 * one)]
    first = floor(place)
    apart = place - first
    if mode == "linear":
        return [(first, 1 - apart, -one), (first + 1, apart, one)]
    return [(first + n, *_cubic(apart - n, near=n in (0, 1))) for n in (-1, 0, 1, 2)]


def cubic_near(x: Any, a: float) -> Any:
    """Return the cubic kernel at distances below 1 (Keys, IEEE TASSP 29(6), 1981), of arrays and of tensors."""
    return (x * (a + 2) - (a + 3)) * x * x + 1


def cubic_far(x: Any, a: float) -> Any:
    """Return the cubic kernel at distances from 1 to 2; beyond it is 0."""
    return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a


def _cubic(apart: Tensor, near: bool, a: float = -0.75) -> tuple[Tensor, Tensor]:
    """Return the weight of a row at a distance below 1, or from 1 to 2, and its derivative."""
    x = abs_(apart)
    weight = cubic_near(x, a) if near else cubic_far(x, a)
    slope = (x * (3 * (a + 2)) - 2 * (a + 3)) * x if near else (x * (3 * a) - 10 * a) * x + 8 * a
    return weight, slope * sign(apart)


def _sampled(x: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """Return x [n, c, ...spatial] at rows [n, ...out] of each spatial dim: [n, c, ...out]."""
    batch = iota(rows[0].shape, 0, "i32")
    return moveaxis(getitem(x, (batch, slice(None), *rows)), -1, 1)
