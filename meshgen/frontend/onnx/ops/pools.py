"""Pooling, with features in dim 1."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from meshgen.budget import require_operations
from meshgen.frontend.onnx.ops.layout import padded
from meshgen.frontend.onnx.ops.products import padding_of
from meshgen.frontend.onnx.ops.table import Array, Call, enter_rows, op, require_few
from meshgen.frontend.tracer.creation import iota, zeros
from meshgen.frontend.tracer.elementwise import abs_, power
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.pooling import Windows, over_windows
from meshgen.frontend.tracer.recording import current
from meshgen.frontend.tracer.reduce import extreme, max_, mean, sum_, widened
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.frontend.tracer.windowed import padding_pairs


def _windows(call: Call, x: Tensor) -> list[Windows]:
    """The windows of a pool along each spatial dim."""
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
    for d, over in enumerate(dims):
        require_few("AveragePool", over.count)
        rows = over.divisors(bool(call["count_include_pad"])).astype(wide.dtype)
        counts = counts * rows.reshape([-1 if n == d else 1 for n in range(len(dims))])
    return (over_windows("add", wide, dims) / counts).astype(x.type.dtype)


@op("MaxPool")
def max_pool(call: Call, x: Tensor) -> Tensor | tuple[Tensor, Tensor]:
    dims = _windows(call, x)
    return _with_places(call, x, dims) if call.results > 1 else over_windows("maximum", x, dims)


def _with_places(call: Call, x: Tensor, dims: Sequence[Windows]) -> tuple[Tensor, Tensor]:
    """The largest elements, and their places in the flat tensor, compared one place of the windows after the other."""
    planes, spatial = x.shape[:2], x.shape[2:]
    require_few("MaxPool with positions", *spatial)
    require_operations(math.prod(over.size for over in dims), "MaxPool with positions", current().at)
    number = np.arange(math.prod(spatial)).reshape(spatial, order="F" if call["storage_order"] else "C")
    plane = iota((math.prod(planes),), 0, "i64").reshape(*planes, *[1] * len(dims))
    pairs = [(0, 0), (0, 0), *((over.before, over.after) for over in dims)]
    lowest = np.asarray(extreme("maximum", x.type.dtype), x.dtype)
    wide, named = padded(x, pairs, value=lowest), padded(plane * math.prod(spatial) + number, pairs)
    found: tuple[Tensor, Tensor] | None = None
    for taps in itertools.product(*(range(over.size) for over in dims)):
        firsts = [(tap * over.apart, over) for tap, over in zip(taps, dims, strict=True)]
        index = tuple(slice(row, row + (over.count - 1) * over.step + 1, over.step) for row, over in firsts)
        value, place = (each[:, :, *index] for each in (wide, named))
        if found is None:
            found = value, place
        else:
            ahead = value > found[0]
            found = where(ahead, value, found[0]), where(ahead, place, found[1])
    assert found is not None, "a window has an element"
    return found


@op("MaxUnpool", known=(2,))
def max_unpool(call: Call, x: Tensor, places: Tensor, shape: Array | None = None) -> Tensor:
    """Elements at their places in a larger tensor of zeros; places are those of the tensor without an explicit shape."""
    n, c, *sizes = x.shape
    over = zip(sizes, call["kernel_shape"], call["strides"] or [1] * len(sizes), strict=True)
    pads = call["pads"] or [0] * (2 * len(sizes))
    own = [(size - 1) * s + k - pads[d] - pads[d + len(sizes)] for d, (size, k, s) in enumerate(over)]
    wanted = own if shape is None else shape.tolist()[2:]
    flat = places.ravel()
    if wanted != own:  # the same plane and place in a larger one
        plane, within = flat // math.prod(own), flat % math.prod(own)
        flat = plane * math.prod(wanted)
        for d in range(len(own)):
            place = within // math.prod(own[d + 1 :]) % own[d]
            flat = flat + place * math.prod(wanted[d + 1 :])
    empty = zeros(n * c * math.prod(wanted), x.type.dtype)
    return empty.at[flat].set(x.ravel()).reshape(n, c, *wanted)


def _raised(x: Tensor, p: float) -> Tensor:
    """A power; `p` may be a fraction before opset 2."""
    return x if p == 1 else power(x, int(p) if p == int(p) else p)


@op("LpPool")
def lp_pool(call: Call, x: Tensor) -> Tensor:
    wide = widened(x)
    p = call["p"]
    raised = _raised(abs_(wide), p)
    return power(over_windows("add", raised, _windows(call, x)), 1.0 / p).astype(x.type.dtype)


def _spatial(x: Tensor) -> tuple[int, ...]:
    return tuple(range(2, x.ndim))


def _global_lp_norm(call: Call, x: Tensor) -> Tensor:
    wide, p = widened(x), call["p"]
    return power(sum_(_raised(abs_(wide), p), _spatial(x), True), 1.0 / p).astype(x.type.dtype)


enter_rows({
    "GlobalAveragePool": lambda call, x: mean(x, _spatial(x), True).astype(x.type.dtype),
    "GlobalMaxPool": lambda call, x: max_(x, _spatial(x), True),
    "GlobalLpPool": _global_lp_norm,
})  # fmt: skip
