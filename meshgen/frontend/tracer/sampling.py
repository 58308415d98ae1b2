"""Sampling of images at data-dependent coordinates, as `grid_sample` in PyTorch and ONNX, and its gradients."""

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
    """A row of the image that contributes to a sample, along one dim.

    Each tensor has an element per sample, [n, ...out].

    Attributes:
        row: the index of the row, clamped to the image.
        weight: the weight of the row in the sample.
        slope: the derivative of the weight with respect to the coordinate in the grid.
    """

    row: Tensor
    weight: Tensor
    slope: Tensor


def grid_samples(x: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool) -> Tensor:
    """Return the image x [n, c, ...spatial], sampled at the coordinates grid [n, ...out, dims], as [n, c, ...out].

    Args:
        grid: coordinates from -1 to 1, in the reverse order of the spatial dims.
        mode: interpolation by nearest, linear or cubic.
        padding: values outside of the image: zeros, border or reflection.
    """
    weighted_reads = [
        _sampled(x, [tap.row for tap in taps]) * _per_feature([tap.weight for tap in taps], x)
        for taps in _taps_of_samples(x, grid, mode, padding, align_corners)
    ]
    return reduce(add, weighted_reads)


def grid_samples_gradient(grad: Tensor, x: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Return the gradients of `grid_samples` with respect to the image and the grid."""
    image = moveaxis(zeros(x.shape, x.type.dtype), 1, -1)
    batch = iota(grid.shape[:-1], 0, "i32")
    slopes_by_dim: list[list[Tensor]] = [[] for _ in x.shape[2:]]
    for taps in _taps_of_samples(x, grid, mode, padding, align_corners):
        rows, weights = [one_tap.row for one_tap in taps], [one_tap.weight for one_tap in taps]
        contribution = moveaxis(grad * _per_feature(weights, x), 1, -1)
        image = image.at[(batch, *rows)].add(contribution)
        read_gradient = convert((grad * _sampled(x, rows)).sum(1), grid.type.dtype)
        for d, tap in enumerate(taps):
            slopes_by_dim[d].append(read_gradient * reduce(multiply, [tap.slope, *weights[:d], *weights[d + 1 :]]))
    slopes = [expand_dims(reduce(add, terms), -1) for terms in slopes_by_dim[::-1]]
    return moveaxis(image, -1, 1), concatenate(slopes, -1)


def _per_feature(weights: Sequence[Tensor], x: Tensor) -> Tensor:
    """Return the product of the tensors `weights` [n, ...out] as [n, 1, ...out], in the dtype of `x`."""
    return convert(expand_dims(reduce(multiply, weights), 1), x.type.dtype)


def _taps_of_samples(x: Tensor, grid: Tensor, mode: str, padding: str, align_corners: bool) -> list[tuple[_Tap, ...]]:
    """Return the elements of the image that contribute to a sample, each as a tuple of one tap per spatial dim."""
    sizes = x.shape[2:]
    along = [_taps(grid[..., len(sizes) - 1 - d], size, mode, padding, align_corners) for d, size in enumerate(sizes)]
    return [*itertools.product(*along)]


def _taps(grid: Tensor, size: int, mode: str, padding: str, align_corners: bool) -> list[_Tap]:
    coordinate = (grid + 1) / 2 * (size - 1) if align_corners else ((grid + 1) * size - 1) / 2
    coordinate, slope = (round_(coordinate) if mode == "nearest" else coordinate), tensor(((size - 1) if align_corners else size) / 2, grid.type.dtype)  # fmt: skip
    if mode != "cubic":  # Each of the rows of a cubic sample is padded separately.
        coordinate, reflected_slope = _padded_coordinate(coordinate, size, align_corners, padding)
        slope = slope * reflected_slope
    taps: list[_Tap] = []
    for row, weight, weight_slope in _weights(coordinate, mode):
        is_inside = logical_and(row >= 0, row <= size - 1) if padding == "zeros" else None
        row = _reflected(row, size, align_corners)[0] if padding == "reflection" else row
        weights = [
            broadcast(tensor(value, grid.type.dtype), coordinate.shape) for value in (weight, weight_slope * slope)
        ]
        weight, weight_slope = weights if is_inside is None else [where(is_inside, value, 0) for value in weights]
        taps.append(_Tap(convert(clip(row, 0, size - 1), "i32"), weight, weight_slope))
    return taps


def _padded_coordinate(coordinate: Tensor, size: int, align_corners: bool, padding: str) -> tuple[Tensor, Operand]:
    """Map coordinates outside of the image into it: clamp them (`border`) or reflect them at the border (`reflection`).

    Returns the new coordinate and the derivative of the mapping. With padding `zeros`, coordinates do not change.
    """
    if padding == "border":
        is_inside = logical_and(coordinate > 0, coordinate < size - 1)
        return clip(coordinate, 0, size - 1), convert(is_inside, coordinate.type.dtype)
    return (
        _reflected(coordinate, size, align_corners)
        if padding == "reflection"
        else (coordinate, np.ones((), np.float32))
    )


def _reflected(coordinate: Tensor, size: int, align_corners: bool) -> tuple[Tensor, Tensor]:
    low, high = (0.0, size - 1.0) if align_corners else (-0.5, size - 0.5)
    span = max(high - low, 1e-6)
    offset = remainder(coordinate - low, 2 * span) - span
    return high - abs_(offset), -sign(offset)


def _weights(coordinate: Tensor, mode: str) -> list[tuple[Tensor, Tensor, Tensor]]:
    """Return (row, weight, derivative of the weight) for each row that contributes to a sample at `coordinate`.

    The rows are integers in a float dtype and may be outside of the image.
    """
    one = tensor(1.0, coordinate.type.dtype)
    if mode == "nearest":
        return [(coordinate, one, 0 * one)]
    first = floor(coordinate)
    fraction = coordinate - first
    if mode == "linear":
        return [(first, 1 - fraction, -one), (first + 1, fraction, one)]
    return [(first + n, *_cubic(fraction - n, near=n in (0, 1))) for n in (-1, 0, 1, 2)]


def cubic_near(x: Any, a: float) -> Any:
    """Return the cubic interpolation kernel at distances x <= 1 (Keys, IEEE TASSP 29(6), 1981), for arrays or tensors."""
    return (x * (a + 2) - (a + 3)) * x * x + 1


def cubic_far(x: Any, a: float) -> Any:
    """Return the cubic interpolation kernel at distances x from 1 to 2. Beyond 2, the kernel is 0."""
    return ((x * a - 5 * a) * x + 8 * a) * x - 4 * a


def _cubic(distance: Tensor, near: bool, a: float = -0.75) -> tuple[Tensor, Tensor]:
    """Return the cubic kernel and its derivative at a signed `distance`, below 1 if `near` is set, else from 1 to 2."""
    x = abs_(distance)
    weight = cubic_near(x, a) if near else cubic_far(x, a)
    slope = (x * (3 * (a + 2)) - 2 * (a + 3)) * x if near else (x * (3 * a) - 10 * a) * x + 8 * a
    return weight, slope * sign(distance)


def _sampled(x: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """Return the elements of x [n, c, ...spatial] at the indices `rows`, as [n, c, ...out].

    `rows` has a tensor [n, ...out] for each spatial dim.
    """
    batch = iota(rows[0].shape, 0, "i32")
    return moveaxis(getitem(x, (batch, slice(None), *rows)), -1, 1)
