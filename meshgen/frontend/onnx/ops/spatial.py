"""Sampling of images at data-dependent positions, and the inverse of im2col."""

from __future__ import annotations

import itertools
import math

import numpy as np

from meshgen.frontend.onnx.ops.table import Array, Call, op, require_small_array
from meshgen.frontend.tracer.creation import zeros
from meshgen.frontend.tracer.elementwise import clip
from meshgen.frontend.tracer.logic import logical_and, where
from meshgen.frontend.tracer.recording import refuse
from meshgen.frontend.tracer.reduce import max_, mean
from meshgen.frontend.tracer.rounding import floor
from meshgen.frontend.tracer.sampling import grid_samples
from meshgen.frontend.tracer.shapes import expand_dims, moveaxis
from meshgen.frontend.tracer.tensor import Tensor


@op("GridSample")
def grid_sample(call: Call, x: Tensor, grid: Tensor) -> Tensor:
    mode: str = {"bilinear": "linear", "bicubic": "cubic"}.get(call["mode"]) or call["mode"]
    return grid_samples(x, grid, mode, call["padding_mode"], bool(call["align_corners"]))


@op("RoiAlign")
def roi_align(call: Call, x: Tensor, rois: Tensor, batches: Tensor) -> Tensor:
    """Sample regions of interest (ROIs) [r, 4] of images [n, c, h, w] on a grid of bins.

    Returns the mean or maximum of the samples in each bin, [r, c, bins, bins].
    """
    samples = call["sampling_ratio"]
    if not samples:
        refuse(
            "with sampling_ratio 0, the number of samples per bin is data", "export it with a positive sampling_ratio"
        )
    _, _, height, width = x.shape
    offset = 0.5 if (call["coordinate_transformation_mode"] or "half_pixel") == "half_pixel" and call.version >= 16 else 0.0  # fmt: skip
    corners = rois * call["spatial_scale"] - offset
    ys, xs = (
        _samples(corners[:, n], corners[:, n + 2], bins, samples, bool(offset))
        for n, bins in ((1, call["output_height"]), (0, call["output_width"]))
    )
    count, rows, columns = rois.shape[0], ys.shape[1], xs.shape[1]
    from_image = batches.astype("i32").reshape(-1, 1, 1)
    neighbors: list[Tensor] = []
    for (y, y_weight), (x_, x_weight) in itertools.product(_neighbor_rows(ys, height), _neighbor_rows(xs, width)):
        index = from_image, slice(None), expand_dims(y, 2), expand_dims(x_, 1)
        value = moveaxis(x[index], -1, 1)
        neighbors.append(value * expand_dims(expand_dims(y_weight, 2) * expand_dims(x_weight, 1), 1))
    is_max = call["mode"] == "max"
    interpolated = neighbors[0]
    for neighbor in neighbors[1:]:
        interpolated = where(neighbor > interpolated, neighbor, interpolated) if is_max else interpolated + neighbor
    binned = interpolated.reshape(count, x.shape[1], rows // samples, samples, columns // samples, samples)
    return max_(binned, (3, 5)) if is_max else mean(binned, (3, 5))


def _samples(first: Tensor, last: Tensor, bins: int, samples: int, is_exact: bool) -> Tensor:
    """Return the coordinates of the samples along one dim of each ROI, [r, bins * samples].

    `first` and `last` are the edges of the ROIs. Unless `is_exact`, ROIs are at least 1 wide.
    """
    require_small_array("RoiAlign", bins, samples)
    span = last - first
    span = span if is_exact else where(span > 1, span, 1)
    fractions = (np.arange(bins * samples, dtype=np.float32) + 0.5) / (bins * samples)
    return expand_dims(first, 1) + expand_dims(span, 1) * fractions


def _neighbor_rows(position: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    """Return the image rows below and above each position, each with an interpolation weight.

    The weights are 0 for positions outside of the image.
    """
    is_inside = logical_and(position >= -1, position <= size)
    position = clip(position, 0, size - 1)
    low = floor(position)
    high = clip(low + 1, 0, size - 1)
    fraction = position - low
    return [(low.astype("i32"), where(is_inside, 1 - fraction, 0)), (high.astype("i32"), where(is_inside, fraction, 0))]


@op("Col2Im", known=(1, 2))
def col2im(call: Call, x: Tensor, image: Array, block: Array) -> Tensor:
    """Sum blocks [n, c * elements of a block, positions] into images [n, c, ...image], in which blocks may overlap."""
    sizes, taps = image.tolist(), block.tolist()
    count = len(sizes)
    strides, dilations = call["strides"] or [1] * count, call["dilations"] or [1] * count
    pads = call["pads"] or [0] * (2 * count)
    block_counts = [(n + pads[d] + pads[d + count] - (k - 1) * dilations[d] - 1) // strides[d] + 1 for d, (n, k) in enumerate(zip(sizes, taps, strict=True))]  # fmt: skip
    require_small_array("Col2Im", *taps, *block_counts)
    n, features = x.shape[0], x.shape[1] // math.prod(taps)
    blocks = x.reshape(n, features, *taps, *block_counts)
    rows: list[Array] = []  # For each dim: the row in the padded image of each element of each block.
    for d in range(count):
        dim_rows = np.arange(taps[d])[:, None] * dilations[d] + np.arange(block_counts[d]) * strides[d]
        rows.append(
            dim_rows.reshape(
                [taps[d] if i == d else block_counts[d] if i == d + count else 1 for i in range(2 * count)]
            )
        )
    padded = zeros((n, features, *(size + pads[d] + pads[d + count] for d, size in enumerate(sizes))), x.type.dtype)
    summed = padded.at[(slice(None), slice(None), *rows)].add(blocks)
    return summed[(slice(None), slice(None), *(slice(pads[d], pads[d] + size) for d, size in enumerate(sizes)))]
