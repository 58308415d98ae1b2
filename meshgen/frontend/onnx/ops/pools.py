"""Pooling of images with features in dim 1."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from meshgen.budget import require_operations
from meshgen.frontend.onnx.ops.layout import padded
from meshgen.frontend.onnx.ops.matmul import padding_of
from meshgen.frontend.onnx.ops.table import Array, Call, enter_rows, op, require_small_array
from meshgen.frontend.tracer.convolutions import padding_pairs
from meshgen.frontend.tracer.creation import iota, zeros
from meshgen.frontend.tracer.elementwise import abs_, power
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.pooling import Windows, over_windows
from meshgen.frontend.tracer.recording import current
from meshgen.frontend.tracer.reduce import extreme, max_, mean, sum_, widened
from meshgen.frontend.tracer.tensor import Tensor


def _windows(call: Call, x: Tensor) -> list[Windows]:
    """Return the pooling windows of each spatial dim of `x`, from the attributes of the call."""
    sizes, kernel = x.shape[2:], list(call["kernel_shape"])
    strides, dilations = call["strides"] or [1] * len(sizes), call["dilations"] or [1] * len(sizes)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = padding_pairs(padding_of(call, len(sizes)), sizes, spans, strides)
    dims = zip(sizes, kernel, strides, pads, dilations, strict=True)
    return [Windows(n, k, s, *pair, d, bool(call["ceil_mode"])) for n, k, s, pair, d in dims]


@op("AveragePool")
def average_pool(call: Call, x: Tensor) -> Tensor:
    wide, dims = widened(x), _windows(call, x)
    counts = tensor(1, wide.type.dtype)
    for d, dim_windows in enumerate(dims):
        require_small_array("AveragePool", dim_windows.count)
        rows = dim_windows.divisors(bool(call["count_include_pad"])).astype(wide.dtype)
        counts = counts * rows.reshape([-1 if n == d else 1 for n in range(len(dims))])
    return (over_windows("add", wide, dims) / counts).astype(x.type.dtype)


@op("MaxPool")
def max_pool(call: Call, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    dims = _windows(call, x)
    return _max_with_indices(call, x, dims) if call.results > 1 else over_windows("maximum", x, dims)


def _max_with_indices(call: Call, x: Tensor, dims: Sequence[Windows]) -> tuple[Tensor, Tensor]:
    """Return the maximum of each window, and the maximum's index in the flattened tensor.

    The program compares one window element after the other, for all windows at once.
    """
    planes, spatial = x.shape[:2], x.shape[2:]
    require_small_array("MaxPool with positions", *spatial)
    require_operations(math.prod(dim_windows.size for dim_windows in dims), "MaxPool with positions", current().at)
    positions = np.arange(math.prod(spatial)).reshape(spatial, order="F" if call["storage_order"] else "C")
    plane_index = iota((math.prod(planes),), 0, "i64").reshape(*planes, *[1] * len(dims))
    pairs = [(0, 0), (0, 0), *((dim_windows.before, dim_windows.after) for dim_windows in dims)]
    padding_value = np.asarray(extreme("maximum", x.type.dtype), x.dtype)
    wide, indices = padded(x, pairs, value=padding_value), padded(plane_index * math.prod(spatial) + positions, pairs)
    best: tuple[Tensor, Tensor] | None = None
    for taps in itertools.product(*(range(dim_windows.size) for dim_windows in dims)):
        firsts = [(tap * dim_windows.apart, dim_windows) for tap, dim_windows in zip(taps, dims, strict=True)]
        index = tuple(
            slice(row, row + (dim_windows.count - 1) * dim_windows.step + 1, dim_windows.step)
            for row, dim_windows in firsts
        )
        value, flat_index = (array[:, :, *index] for array in (wide, indices))
        if best is None:
            best = value, flat_index
        else:
            is_larger = value > best[0]
            best = where(is_larger, value, best[0]), where(is_larger, flat_index, best[1])
    assert best is not None, "a window has an element"
    return best


@op("MaxUnpool", known=(2,))
def max_unpool(call: Call, x: Tensor, indices: Tensor, shape: Array | None = None) -> Tensor:
    """Write the elements of `x` into a larger tensor of zeros, at the flat positions `indices`.

    The positions refer to a tensor of the default output shape, even if the operator has an explicit shape.
    """
    n, c, *sizes = x.shape
    geometry = zip(sizes, call["kernel_shape"], call["strides"] or [1] * len(sizes), strict=True)
    pads = call["pads"] or [0] * (2 * len(sizes))
    default_sizes = [(size - 1) * s + k - pads[d] - pads[d + len(sizes)] for d, (size, k, s) in enumerate(geometry)]
    output_sizes = default_sizes if shape is None else shape.tolist()[2:]
    flat = indices.ravel()
    # Convert each index to the same plane and coordinates in a tensor of the explicit shape.
    if output_sizes != default_sizes:
        plane, position_in_plane = flat // math.prod(default_sizes), flat % math.prod(default_sizes)
        flat = plane * math.prod(output_sizes)
        for d in range(len(default_sizes)):
            coordinate = position_in_plane // math.prod(default_sizes[d + 1 :]) % default_sizes[d]
            flat = flat + coordinate * math.prod(output_sizes[d + 1 :])
    empty = zeros(n * c * math.prod(output_sizes), x.type.dtype)
    return empty.at[flat].set(x.ravel()).reshape(n, c, *output_sizes)


def _raise_to_power(x: Tensor, p: float) -> Tensor:
    """Raise `x` to the power `p`, the norm exponent of LpPool. `p` may be a fraction before opset 2."""
    return x if p == 1 else power(x, int(p) if p == int(p) else p)


@op("LpPool")
def lp_pool(call: Call, x: Tensor) -> Tensor:
    wide = widened(x)
    p = call["p"]
    raised = _raise_to_power(abs_(wide), p)
    return power(over_windows("add", raised, _windows(call, x)), 1.0 / p).astype(x.type.dtype)


def _spatial(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def _global_lp_norm(call: Call, x: Tensor) -> Tensor:
    wide, p = widened(x), call["p"]
    return power(sum_(_raise_to_power(abs_(wide), p), _spatial(x), True), 1.0 / p).astype(x.type.dtype)


enter_rows({
    "GlobalAveragePool": lambda call, x: mean(x, _spatial(x), True).astype(x.type.dtype),
    "GlobalMaxPool": lambda call, x: max_(x, _spatial(x), True),
    "GlobalLpPool": _global_lp_norm,
})  # fmt: skip
