"""Samples of images at places that are data, and blocks put together."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from meshgen.frontend.onnx.ops.table import Array, Call, kind_of, op, shape_of
from meshgen.frontend.tracer.creation import iota, zeros
from meshgen.frontend.tracer.elementwise import abs_, clip
from meshgen.frontend.tracer.indexing import getitem
from meshgen.frontend.tracer.logic import logical_and, where
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.reduce import max_, mean
from meshgen.frontend.tracer.rounding import floor, remainder, round_
from meshgen.frontend.tracer.shapes import expand_dims, moveaxis, reshape, transpose
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.frontend.tracer.updates import at


@op("GridSample")
def grid_sample(call: Call, x: Operand, grid: Operand) -> Tensor:
    """x [n, c, ...spatial] at places [n, ...out, dims], from -1 to 1, the last dim first."""
    sizes = shape_of(x)[2:]
    places = [_denormalised(tensor(grid)[..., len(sizes) - 1 - d], size, bool(call["align_corners"])) for d, size in enumerate(sizes)]  # fmt: skip
    mode: str = {"bilinear": "linear", "bicubic": "cubic"}.get(call["mode"]) or call["mode"]
    if mode == "nearest":
        places = [round_(place) for place in places]
    corners, padding = bool(call["align_corners"]), call["padding_mode"]
    places = [_padded_place(place, size, corners, padding) for place, size in zip(places, sizes, strict=True)]
    taps = [_taps(place, mode) for place in places]
    total: Tensor | None = None
    for chosen in itertools.product(*taps):
        rows = [_inside(row, size, corners, padding) for (row, _), size in zip(chosen, sizes, strict=True)]
        value = _sampled(tensor(x), [row for row, _ in rows])
        weight = np.ones((), np.float32)
        for (_, own), (_, is_inside) in zip(chosen, rows, strict=True):
            weight = weight * own if is_inside is None else where(is_inside, weight * own, 0)
        part = value * convert(expand_dims(tensor(weight), 1), kind_of(x))
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


def _inside(row: Tensor, size: int, align_corners: bool, padding: str) -> tuple[Tensor, Tensor | None]:
    """A row's number inside the image, and whether it counts (None: always)."""
    is_inside = logical_and(row >= 0, row <= size - 1) if padding == "zeros" else None
    row = _reflected(row, size, align_corners) if padding == "reflection" else row
    return convert(clip(row, 0, size - 1), "i32"), is_inside


def _sampled(x: Tensor, rows: Sequence[Tensor]) -> Tensor:
    """x [n, c, ...spatial] at rows [n, ...out] of each spatial dim: [n, c, ...out]."""
    batch = iota(rows[0].shape, 0, "i32")
    return moveaxis(getitem(x, (batch, slice(None), *rows)), -1, 1)


@op("RoiAlign")
def roi_align(call: Call, x: Operand, rois: Operand, batches: Operand) -> Tensor:
    """Averages, or maxima, of samples in bins of boxes [r, 4] of images x [n, c, h, w]: [r, c, bins, bins]."""
    samples = call["sampling_ratio"]
    if not samples:
        refuse("the number of samples per bin is data where sampling_ratio is 0", "export it with a number of samples")
    _, _, height, width = shape_of(x)
    offset = 0.5 if (call["coordinate_transformation_mode"] or "half_pixel") == "half_pixel" and call.version >= 16 else 0.0  # fmt: skip
    corners = tensor(rois) * call["spatial_scale"] - offset
    ys, xs = (
        _samples(corners[:, n], corners[:, n + 2], bins, samples, bool(offset))
        for n, bins in ((1, call["output_height"]), (0, call["output_width"]))
    )
    count, rows, columns = shape_of(rois)[0], ys.shape[1], xs.shape[1]
    from_image = reshape(convert(tensor(batches), "i32"), (-1, 1, 1))
    parts: list[Tensor] = []
    for (y, y_weight), (x_, x_weight) in itertools.product(_edges(ys, height), _edges(xs, width)):
        index = from_image, slice(None), expand_dims(y, 2), expand_dims(x_, 1)
        value = moveaxis(getitem(tensor(x), index), -1, 1)
        parts.append(value * expand_dims(expand_dims(y_weight, 2) * expand_dims(x_weight, 1), 1))
    is_max = call["mode"] == "max"
    whole = parts[0]
    for part in parts[1:]:
        whole = where(part > whole, part, whole) if is_max else whole + part
    binned = reshape(whole, (count, shape_of(x)[1], rows // samples, samples, columns // samples, samples))
    return max_(binned, (3, 5)) if is_max else mean(binned, (3, 5))


def _samples(first: Tensor, last: Tensor, bins: int, samples: int, is_exact: bool) -> Tensor:
    """Where samples are along one dim of boxes: [r, bins * samples]."""
    span = last - first
    span = span if is_exact else where(span > 1, span, 1)
    apart = (np.arange(bins * samples, dtype=np.float32) + 0.5) / (bins * samples)
    return expand_dims(first, 1) + expand_dims(span, 1) * apart


def _edges(place: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """The rows below and above a place, with their weights; 0 for places outside of the image."""
    is_inside = logical_and(place >= -1, place <= size)
    place = clip(place, 0, size - 1)
    low = floor(place)
    high = clip(low + 1, 0, size - 1)
    apart = place - low
    return [(convert(low, "i32"), where(is_inside, 1 - apart, 0)), (convert(high, "i32"), where(is_inside, apart, 0))]


@op("Col2Im", known=(1, 2))
def col2im(call: Call, x: Operand, image: Array, block: Array) -> Tensor:
    """Blocks [n, c * block, places] added up in images [n, c, ...image]."""
    sizes, taps = image.tolist(), block.tolist()
    count = len(sizes)
    strides, dilations = call["strides"] or [1] * count, call["dilations"] or [1] * count
    pads = call["pads"] or [0] * (2 * count)
    outs = [(n + pads[d] + pads[d + count] - (k - 1) * dilations[d] - 1) // strides[d] + 1 for d, (n, k) in enumerate(zip(sizes, taps, strict=True))]  # fmt: skip
    n = shape_of(x)[0]
    features = shape_of(x)[1] // math.prod(taps)
    parts = reshape(tensor(x), (n, features, *taps, *outs))
    places: list[Array] = []
    for d in range(count):
        along = np.arange(taps[d])[:, None] * dilations[d] + np.arange(outs[d]) * strides[d]
        shape = [1] * (2 * count)
        shape[d], shape[d + count] = taps[d], outs[d]
        places.append(along.reshape(shape))
    whole = [size + pads[d] + pads[d + count] for d, size in enumerate(sizes)]
    flat = np.zeros([*taps, *outs], np.int32)
    for d in range(count):
        flat = flat * whole[d] + places[d].astype(np.int32)
    rows = reshape(transpose(parts, (*range(2, 2 + 2 * count), 0, 1)), (flat.size, n, features))
    summed = at(zeros((math.prod(whole), n, features), kind_of(x)))[flat.reshape(-1)].add(rows)
    found = transpose(reshape(summed, (*whole, n, features)), (count, count + 1, *range(count)))
    return found[(slice(None), slice(None), *(slice(pads[d], pads[d] + size) for d, size in enumerate(sizes)))]
