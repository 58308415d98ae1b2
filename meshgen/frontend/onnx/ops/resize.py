"""Resize and Upsample: each dim by itself, as a sum of a few rows with known weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
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
    kind_of,
    op,
    rank_of,
    require_few,
    shape_of,
)
from meshgen.frontend.tracer.indexing import getitem, take
from meshgen.frontend.tracer.logic import where
from meshgen.frontend.tracer.operands import convert, tensor
from meshgen.frontend.tracer.recording import OPS, current, refuse
from meshgen.frontend.tracer.reduce import widened
from meshgen.frontend.tracer.sampling import cubic_far, cubic_near
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
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
def resize(call: Call, x: Operand, roi: Any = None, scales: Any = None, sizes: Any = None) -> Tensor:
    """The part that is taken, `roi`, may be data; scales and sizes decide the shape."""
    if call.version < 11:
        roi, scales = None, roi  # opset 10: the scales are the second operand
    mode = call["coordinate_transformation_mode"] or "asymmetric"
    known = [None if each is None else array_of(each, name) for name, each in (("scales", scales), ("sizes", sizes))]
    dims = _dims_of(call, shape_of(x), roi if mode == "tf_crop_and_resize" else None, *known)
    return resized(call, x, dims, mode)


enter_rows({"Upsample": lambda call, x, scales: resized(call, x, _dims_of(call, shape_of(x), None, scales, None), "asymmetric")}, known=(1,))  # fmt: skip


def _dims_of(call: Call, shape: tuple[int, ...], roi: Operand, scales: Array | None, sizes: Array | None) -> dict[int, Dim]:  # fmt: skip
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
        parts = [getitem(roi, n) for n in range(len(parts))]
    elif roi is not None and roi.size:
        parts = roi.tolist()
    rows = zip(axes, old, wanted, factors, parts[: len(axes)], parts[len(axes) :], strict=True)
    return {a: Dim(n, m, s, lo, hi) for a, n, m, s, lo, hi in rows if n != m or s != 1 or roi is not None}


def resized(call: Call, x: Operand, dims: dict[int, Dim], mode: str) -> Tensor:
    """The tensor with these dims resized; outside of it is `extrapolation_value` where a part is taken."""
    kind, method = kind_of(x), call["mode"]
    for dim in dims.values():
        require_few("Resize", dim.new)
    found = tensor(x) if method == "nearest" else widened(x)
    if not is_float(found.type.dtype) and method != "nearest":
        found = convert(found, "f32")
    for axis, dim in dims.items():
        places = dim.places(mode)
        if method == "nearest":
            found = take(found, _nearest(places, dim.size, call["nearest_mode"] or "floor"), axis)
        else:
            rows, weights = _taps(call, places, dim, "cubic" if method == "cubic" else "linear")
            beside = [-1 if d == axis else 1 for d in range(rank_of(x))]
            factors = tensor(weights, found.type.dtype)
            parts = [take(found, rows[:, n], axis) * reshape(factors[:, n], beside) for n in range(rows.shape[1])]
            found = parts[0]
            for part in parts[1:]:
                found = found + part
    if mode == "tf_crop_and_resize":
        for axis, dim in dims.items():
            places = dim.places(mode)
            inside = (places >= 0) & (places <= dim.size - 1)
            beside = [-1 if d == axis else 1 for d in range(rank_of(x))]
            found = where(reshape(inside, beside), found, float(call["extrapolation_value"]))
    return convert(found, kind)


def _functions(places: Places) -> Any:
    """NumPy for known numbers, else the functions of the tracer, of the same names."""
    return np if isinstance(places, np.ndarray) else SimpleNamespace(**OPS)


def _whole(rows: Any, size: int) -> Operand:
    """Numbers of rows, those outside of a dim as the nearest one of it."""
    inside = _functions(rows).clip(rows, 0, size - 1)
    return inside.astype(np.int32) if isinstance(inside, np.ndarray) else convert(inside, "i32")


def _nearest(places: Places, size: int, mode: str) -> Operand:
    """The number of the nearest row."""
    xp = _functions(places)
    rounded: dict[str, Callable[[], Any]] = {
        "round_prefer_floor": lambda: xp.ceil(places - 0.5),
        "round_prefer_ceil": lambda: xp.floor(places + 0.5),
        "floor": lambda: xp.floor(places),
        "ceil": lambda: xp.ceil(places),
    }
    if mode not in rounded:
        refuse(f"'{mode}' is not a mode of rounding", f"these are {', '.join(rounded)}")
    return _whole(rounded[mode](), size)


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
