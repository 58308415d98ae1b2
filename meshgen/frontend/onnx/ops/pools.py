"""Pooling, with features in dim 1."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from meshgen.budget import require_operations
from meshgen.frontend.onnx.ops.layout import padded
from meshgen.frontend.onnx.ops.table import Array, Call, enter_rows, kind_of, op, require_few, shape_of
from meshgen.frontend.tracer.creation import iota, zeros
from meshgen.frontend.tracer.elementwise import abs_, maximum, power
from meshgen.frontend.tracer.indexing import getitem
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import current
from meshgen.frontend.tracer.reduce import extreme, max_, mean, sum_, widened
from meshgen.frontend.tracer.scans import windows
from meshgen.frontend.tracer.shapes import ravel, reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.frontend.tracer.updates import at


@dataclass(frozen=True)
class Windows:
    """The windows of a pool, per spatial dim; `low` and `high` rows are before and after, of which some may be beyond the padding."""

    sizes: list[int]
    strides: list[int]
    dilations: list[int]
    low: list[int]
    high: list[int]
    padded: list[int]  # rows of `high` that count as padding

    def of(self, kind: str, x: Tensor, neutral: float) -> Tensor:
        """A reduction of each window of x [n, c, ...]."""
        combine = {"add": lambda a, b: a + b, "maximum": maximum}[kind]
        whole = [[1, 1, *each] for each in (self.sizes, self.strides, self.dilations)]
        return windows(combine, x, neutral, whole[0], whole[1], [0, 0, *self.low], [0, 0, *self.high], whole[2])


def windows_of(call: Call, sizes: Sequence[int]) -> Windows:
    """The windows over spatial dims of these sizes."""
    count, kernel = len(sizes), list(call["kernel_shape"])
    strides, dilations = list(call["strides"] or [1] * count), list(call["dilations"] or [1] * count)
    spans = [(k - 1) * d + 1 for k, d in zip(kernel, dilations, strict=True)]
    pads = call["pads"] or [0] * (2 * count)
    low, high = list(pads[:count]), list(pads[count:])
    if (named := call["auto_pad"] or "NOTSET") != "NOTSET":
        total = [max(0, (math.ceil(n / s) - 1) * s + k - n) if named != "VALID" else 0 for n, s, k in zip(sizes, strides, spans, strict=True)]  # fmt: skip
        low = [t // 2 if named == "SAME_UPPER" else t - t // 2 for t in total]
        high = [t - a for t, a in zip(total, low, strict=True)]
    beyond = list(high)
    if call["ceil_mode"]:
        for d, (n, a, b, s, k) in enumerate(zip(sizes, low, high, strides, spans, strict=True)):
            windows_ = -(-(n + a + b - k) // s) + 1
            windows_ -= (windows_ - 1) * s >= n + a
            beyond[d] = (windows_ - 1) * s + k - n - a
    return Windows(kernel, strides, dilations, low, beyond, high)


@op("AveragePool")
def average_pool(call: Call, x: Operand) -> Tensor:
    wide = widened(x)
    over = windows_of(call, wide.shape[2:])
    total = over.of("add", wide, 0)
    counts: Operand = tensor(1, wide.type.dtype)
    for d, size in enumerate(wide.shape[2:]):
        rows = _counts(over, d, size, bool(call["count_include_pad"])).astype(wide.dtype)
        counts = counts * reshape(rows, [-1 if n == d else 1 for n in range(len(over.sizes))])
    return convert(total / counts, kind_of(x))


def _counts(over: Windows, dim: int, size: int, with_padding: bool) -> Array:
    """How many rows of each window count: those of the tensor, and those of the padding."""
    low, high, taps, apart = over.low[dim], over.high[dim], over.sizes[dim], over.dilations[dim]
    span = (taps - 1) * apart + 1
    require_few("AveragePool", (low + size + high) // over.strides[dim])
    starts = np.arange(0, low + size + high - span + 1, over.strides[dim])
    first, last = (0, low + size + over.padded[dim]) if with_padding else (low, low + size)
    return np.clip(-((starts - last) // apart), 0, taps) - np.clip(-((starts - first) // apart), 0, taps)


@op("MaxPool")
def max_pool(call: Call, x: Operand) -> Tensor | tuple[Tensor, Tensor]:
    x = tensor(x)
    over = windows_of(call, x.shape[2:])
    lowest = extreme("maximum", x.type.dtype)
    return _with_places(call, x, over, lowest) if call.results > 1 else over.of("maximum", x, lowest)


def _with_places(call: Call, x: Tensor, over: Windows, lowest: float) -> tuple[Tensor, Tensor]:
    """The largest elements, and their places in the flat tensor, compared one place of the windows after the other."""
    spatial = x.shape[2:]
    require_few("MaxPool with positions", *spatial)
    require_operations(math.prod(over.sizes), "MaxPool with positions", current().at)
    order = range(len(spatial)) if not call["storage_order"] else range(len(spatial) - 1, -1, -1)
    number, factor = np.zeros(spatial, np.int64), 1
    for d in reversed(order):
        number = number + np.indices(spatial)[d] * factor
        factor *= spatial[d]
    numbers = iota((*x.shape[:2], *[1] * len(spatial)), 0, "i64") * x.shape[1] + iota((*x.shape[:2], *[1] * len(spatial)), 1, "i64")  # fmt: skip
    places = numbers * math.prod(spatial) + number
    pairs = [(0, 0), (0, 0), *zip(over.low, over.high, strict=True)]
    found: tuple[Tensor, Tensor] | None = None
    wide, named = padded(x, pairs, value=np.asarray(lowest, x.dtype)), padded(places, pairs)
    for taps in itertools.product(*map(range, over.sizes)):
        index = tuple(slice(t * d, wide.shape[n + 2] - ((k - 1) - t) * d, s) for n, (t, d, k, s) in
                      enumerate(zip(taps, over.dilations, over.sizes, over.strides, strict=True)))  # fmt: skip
        value, place = (getitem(each, (slice(None), slice(None), *index)) for each in (wide, named))
        if found is None:
            found = value, place
        else:
            ahead = value > found[0]
            found = where(ahead, value, found[0]), where(ahead, place, found[1])
    assert found is not None
    return found


@op("MaxUnpool", known=(2,))
def max_unpool(call: Call, x: Operand, places: Operand, shape: Array | None = None) -> Tensor:
    """Elements at their places in a larger tensor of zeros; places are those of the tensor without an explicit shape."""
    n, c, *sizes = shape_of(x)
    over = zip(sizes, call["kernel_shape"], call["strides"] or [1] * len(sizes), strict=True)
    pads = call["pads"] or [0] * (2 * len(sizes))
    own = [(size - 1) * s + k - pads[d] - pads[d + len(sizes)] for d, (size, k, s) in enumerate(over)]
    wanted = own if shape is None else shape.tolist()[2:]
    flat = ravel(places)
    if wanted != own:  # the same plane and place in a larger one
        plane, within = flat // math.prod(own), flat % math.prod(own)
        flat = plane * math.prod(wanted)
        for d in range(len(own)):
            place = within // math.prod(own[d + 1 :]) % own[d]
            flat = flat + place * math.prod(wanted[d + 1 :])
    empty = zeros(n * c * math.prod(wanted), kind_of(x))
    return reshape(at(empty)[flat].set(ravel(x)), (n, c, *wanted))


def _raised(x: Tensor, p: float) -> Tensor:
    """A power; `p` may be a fraction before opset 2."""
    return x if p == 1 else power(x, int(p) if p == int(p) else p)


@op("LpPool")
def lp_pool(call: Call, x: Operand) -> Tensor:
    wide = widened(x)
    p = call["p"]
    raised = _raised(abs_(wide), p)
    total = windows_of(call, wide.shape[2:]).of("add", raised, 0)
    return convert(power(total, 1.0 / p), kind_of(x))


def _spatial(x: Operand) -> tuple[int, ...]:
    return tuple(range(2, len(shape_of(x))))


def _global_lp_norm(call: Call, x: Operand) -> Tensor:
    wide, p = widened(x), call["p"]
    return convert(power(sum_(_raised(abs_(wide), p), _spatial(x), True), 1.0 / p), kind_of(x))


enter_rows({
    "GlobalAveragePool": lambda call, x: convert(mean(x, _spatial(x), True), kind_of(x)),
    "GlobalMaxPool": lambda call, x: max_(x, _spatial(x), True),
    "GlobalLpPool": _global_lp_norm,
})  # fmt: skip
