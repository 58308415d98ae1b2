"""Resize and Upsample: each dim by itself, as a sum of a few rows with known weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from types import SimpleNamespace
from typing import Any, TypeAlias

import numpy as np

from meshgen.budget import require_operations
from meshgen.frontend.onnx.ops.table import (
    Array,
    Call,
    array_of,
    dim_of,
    enter_rows,
    op,
    require_few,
)
from meshgen.frontend.tracer.elementwise import add
from meshgen.frontend.tracer.indexing import take
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import tensor
from meshgen.frontend.tracer.recording import OPS, current, refuse
from meshgen.frontend.tracer.reduce import widened
from meshgen.frontend.tracer.sampling import cubic_far, cubic_near
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import is_float

Places: TypeAlias = Any  # positions of rows: an array, or a tensor where they are data


@dataclass(frozen=True)
class Dim:
    """How one dim is resized: its size and the new one, and the part of it that is taken (`tf_crop_and_resize`)."""

    size: int
    new: int
    scale: float
    first: Any = 0.0
    last: Any = 1.0

    def places(self, mode: str) -> Places:
        """Where each new row is among the old ones, by the transformation of coordinates; in f32, which decides halves."""
        x, n, m = np.arange(self.new, dtype=np.float32), self.size, self.new
        whole = n * self.scale
        makers: dict[str, Callable[[], Places]] = {
            "half_pixel": lambda: (x + 0.5) / self.scale - 0.5,
            "half_pixel_symmetric": lambda: n / 2 * (1 - m / whole) + (x + 0.5) / self.scale - 0.5,
            "pytorch_half_pixel": lambda: (x + 0.5) / self.scale - 0.5 if m > 1 else x * 0,
            "align_corners": lambda: x * (n - 1) / (whole - 1) if whole != 1 else x * 0,
            "asymmetric": lambda: x / self.scale,
            "tf_crop_and_resize": lambda: self._cropped(x),
        }
        if mode not in makers:
            refuse(f"'{mode}' is not a transformation of coordinates", f"these are {', '.join(makers)}")
        return makers[mode]()

    def _cropped(self, x: Array) -> Places:
        if self.new == 1:
            return (self.first + self.last) * (0.5 * (self.size - 1)) + x * 0
        steps = x * ((self.size - 1) / (self.size * self.scale - 1))
        return (self.last - self.first) * steps + self.first * (self.size - 1)


@op("Resize", constant=(1, 2, 3))
def resize(call: Call, x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None) -> Tensor:
    """The part that is taken, `roi`, may be data; scales and sizes decide the shape."""
    if call.version < 11:
        roi, scales = None, roi  # opset 10: the scales are the second operand
    mode = call["coordinate_transformation_mode"] or "asymmetric"
    known = [None if each is None else array_of(each, name) for name, each in (("scales", scales), ("sizes", sizes))]
    dims = _dims_of(call, x.shape, roi if mode == "tf_crop_and_resize" else None, *known)
    return resized(call, x, dims, mode)


enter_rows({"Upsample": lambda call, x, scales: resized(call, x, _dims_of(call, x.shape, None, scales, None), "asymmetric")}, known=(1,))  # fmt: skip


def _dims_of(call: Call, shape: tuple[int, ...], roi: Any, scales: Array | None, sizes: Array | None) -> dict[int, Dim]:  # fmt: skip
    """The dims that change, or of which a part is taken."""
    axes = [dim_of(a, len(shape)) for a in call["axes"] or range(len(shape))]
    old = [shape[a] for a in axes]
    if sizes is None or not sizes.size:
        assert scales is not None
        factors = [float(each) for each in scales]
        if not all(0 < each < math.inf for each in factors):
            refuse(f"scales {factors} are not positive numbers")
        wanted = [math.floor(n * s) for n, s in zip(old, factors, strict=True)]
    else:
        wanted = [int(each) for each in sizes]
        factors = [m / n for m, n in zip(wanted, old, strict=True)]
        policy = call["keep_aspect_ratio_policy"] or "stretch"
        if policy != "stretch":
            factors = [min(factors) if policy == "not_larger" else max(factors)] * len(old)
            wanted = [math.floor(n * s + 0.5) for n, s in zip(old, factors, strict=True)]
    parts: list[Any] = [0.0] * len(axes) + [1.0] * len(axes)
    if isinstance(roi, Tensor):
        parts = [roi[n] for n in range(len(parts))]
    elif roi is not None and roi.size:
        parts = roi.tolist()
    rows = zip(axes, old, wanted, factors, parts[: len(axes)], parts[len(axes) :], strict=True)
    return {a: Dim(n, m, s, lo, hi) for a, n, m, s, lo, hi in rows if n != m or s != 1 or roi is not None}


def resized(call: Call, x: Tensor, dims: dict[int, Dim], mode: str) -> Tensor:
    """The tensor with these dims resized; outside of it is `extrapolation_value` where a part is taken."""
    kind, method = x.type.dtype, call["mode"]
    for dim in dims.values():
        require_few("Resize", dim.new)
    found = x if method == "nearest" else widened(x)
    if not is_float(found.type.dtype) and method != "nearest":
        found = found.astype("f32")
    places = {axis: dim.places(mode) for axis, dim in dims.items()}
    for axis, dim in dims.items():
        if method == "nearest":
            found = take(found, _nearest(places[axis], dim.size, call["nearest_mode"] or "floor"), axis)
        else:
            rows, weights = _taps(call, places[axis], dim, "cubic" if method == "cubic" else "linear")
            factors = tensor(weights, found.type.dtype)
            taps = range(rows.shape[1])
            parts = [take(found, rows[:, n], axis) * _along(factors[:, n], axis, x.ndim) for n in taps]
            found = reduce(add, parts)
    if mode == "tf_crop_and_resize":
        for axis, dim in dims.items():
            inside = (places[axis] >= 0) & (places[axis] <= dim.size - 1)
            found = where(_along(inside, axis, x.ndim), found, float(call["extrapolation_value"]))
    return found.astype(kind)


def _along(vector: Any, axis: int, rank: int) -> Any:
    """A vector along a dim of a tensor of this rank."""
    return vector.reshape([-1 if d == axis else 1 for d in range(rank)])


def _functions(places: Places) -> Any:
    """NumPy for known numbers, else the functions of the tracer, of the same names."""
    return np if isinstance(places, np.ndarray) else SimpleNamespace(**OPS)


def _whole(rows: Places, size: int) -> Any:
    """Numbers of rows, those outside of a dim as the nearest one of it."""
    inside = _functions(rows).clip(rows, 0, size - 1)
    return inside.astype(np.int32)


# The rounding of each mode: what is added before, and the function.
_ROUNDINGS = {
    "round_prefer_floor": (-0.5, "ceil"),
    "round_prefer_ceil": (0.5, "floor"),
    "floor": (0.0, "floor"),
    "ceil": (0.0, "ceil"),
}


def _nearest(places: Places, size: int, mode: str) -> Any:
    """The number of the nearest row."""
    if mode not in _ROUNDINGS:
        refuse(f"'{mode}' is not a mode of rounding", f"these are {', '.join(_ROUNDINGS)}")
    shift, function = _ROUNDINGS[mode]
    return _whole(getattr(_functions(places), function)(places + shift if shift else places), size)


def _taps(call: Call, places: Places, dim: Dim, kind: str) -> tuple[Any, Any]:
    """The rows of which each new row is a sum, and their weights: [new, taps] each. Weights of shrunk dims are wider with `antialias`."""
    reach = {"linear": 1, "cubic": 2}[kind]
    scale = min(dim.scale, 1.0) if call["antialias"] else 1.0
    half = math.floor(reach / scale) + 1 if scale < 1 else reach
    require_few("Resize", dim.new, 2 * half)
    require_operations(2 * half, "Resize", current().at)
    xp = _functions(places)
    wide: Any = places.astype(np.float64) if isinstance(places, np.ndarray) else places
    rows = xp.floor(wide)[:, None] + np.arange(1 - half, half + 1, dtype=wide.dtype)
    weights = _weight(xp.abs(rows - wide[:, None]) * scale, kind, call["cubic_coeff_a"])
    if call["exclude_outside"]:
        weights = xp.where((rows >= 0) & (rows < dim.size), weights, 0)
    weights = weights / xp.sum(weights, 1, keepdims=True)
    return _whole(rows, dim.size), weights


def _weight(apart: Any, kind: str, a: float) -> Any:
    """Return the weight of a row at a distance."""
    xp = _functions(apart)
    if kind == "linear":
        return xp.clip(1 - apart, 0, 1)
    return xp.where(apart <= 1, cubic_near(apart, a), xp.where(apart < 2, cubic_far(apart, a), 0))
