"""Resize and Upsample. Each dim is resized separately: each new row is a weighted sum of a few old rows."""

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
    require_small_array,
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

Places: TypeAlias = Any  # Fractional row positions: an array, or a tensor if they depend on data.


@dataclass(frozen=True)
class Dim:
    """The resize settings of one dim.

    Attributes:
        size: the old size.
        new: the new size.
        scale: the scale factor.
        first, last: start and end of the cropped range, as fractions of the old size (`tf_crop_and_resize`).
    """

    size: int
    new: int
    scale: float
    first: Any = 0.0
    last: Any = 1.0

    def places(self, mode: str) -> Places:
        """Return the fractional position of each new row among the old rows.

        `mode` is one of ONNX's coordinate transformations. The positions are computed in f32, which decides the
        rounding of positions halfway between two rows.
        """
        x, n, m = np.arange(self.new, dtype=np.float32), self.size, self.new
        scaled_size = n * self.scale
        transformations: dict[str, Callable[[], Places]] = {
            "half_pixel": lambda: (x + 0.5) / self.scale - 0.5,
            "half_pixel_symmetric": lambda: n / 2 * (1 - m / scaled_size) + (x + 0.5) / self.scale - 0.5,
            "pytorch_half_pixel": lambda: (x + 0.5) / self.scale - 0.5 if m > 1 else x * 0,
            "align_corners": lambda: x * (n - 1) / (scaled_size - 1) if scaled_size != 1 else x * 0,
            "asymmetric": lambda: x / self.scale,
            "tf_crop_and_resize": lambda: self._cropped(x),
        }
        if mode not in transformations:
            refuse(f"'{mode}' is not a coordinate transformation", f"supported are {', '.join(transformations)}")
        return transformations[mode]()

    def _cropped(self, x: Array) -> Places:
        if self.new == 1:
            return (self.first + self.last) * (0.5 * (self.size - 1)) + x * 0
        steps = x * ((self.size - 1) / (self.size * self.scale - 1))
        return (self.last - self.first) * steps + self.first * (self.size - 1)


@op("Resize", constant=(1, 2, 3))
def resize(call: Call, x: Tensor, roi: Any = None, scales: Any = None, sizes: Any = None) -> Tensor:
    """Import `Resize`.

    Scales and sizes must be constants, because they determine the shape; the crop `roi` may be a tensor.
    """
    if call.version < 11:
        roi, scales = None, roi  # In opset 10, the second operand contains the scales.
    mode = call["coordinate_transformation_mode"] or "asymmetric"
    scales_and_sizes = [
        None if value is None else array_of(value, name) for name, value in (("scales", scales), ("sizes", sizes))
    ]
    dims = _dims_of(call, x.shape, roi if mode == "tf_crop_and_resize" else None, *scales_and_sizes)
    return resized(call, x, dims, mode)


enter_rows({"Upsample": lambda call, x, scales: resized(call, x, _dims_of(call, x.shape, None, scales, None), "asymmetric")}, known=(1,))  # fmt: skip


def _dims_of(call: Call, shape: tuple[int, ...], roi: Any, scales: Array | None, sizes: Array | None) -> dict[int, Dim]:  # fmt: skip
    """Return the settings of the dims that are resized or cropped, by dim."""
    axes = [dim_of(a, len(shape)) for a in call["axes"] or range(len(shape))]
    old = [shape[a] for a in axes]
    if sizes is None or not sizes.size:
        assert scales is not None
        factors = [float(value) for value in scales]
        if not all(0 < value < math.inf for value in factors):
            refuse(f"scales {factors} are not positive numbers")
        new_sizes = [math.floor(n * s) for n, s in zip(old, factors, strict=True)]
    else:
        new_sizes = [int(value) for value in sizes]
        factors = [m / n for m, n in zip(new_sizes, old, strict=True)]
        policy = call["keep_aspect_ratio_policy"] or "stretch"
        if policy != "stretch":
            factors = [min(factors) if policy == "not_larger" else max(factors)] * len(old)
            new_sizes = [math.floor(n * s + 0.5) for n, s in zip(old, factors, strict=True)]
    crop_bounds: list[Any] = [0.0] * len(axes) + [1.0] * len(axes)
    if isinstance(roi, Tensor):
        crop_bounds = [roi[n] for n in range(len(crop_bounds))]
    elif roi is not None and roi.size:
        crop_bounds = roi.tolist()
    dim_settings = zip(axes, old, new_sizes, factors, crop_bounds[: len(axes)], crop_bounds[len(axes) :], strict=True)
    return {a: Dim(n, m, s, lo, hi) for a, n, m, s, lo, hi in dim_settings if n != m or s != 1 or roi is not None}


def resized(call: Call, x: Tensor, dims: dict[int, Dim], mode: str) -> Tensor:
    """Resize the dims of `x`.

    In `tf_crop_and_resize`, positions outside of `x` get the attribute `extrapolation_value`.
    """
    kind, method = x.type.dtype, call["mode"]
    for dim in dims.values():
        require_small_array("Resize", dim.new)
    result = x if method == "nearest" else widened(x)
    if not is_float(result.type.dtype) and method != "nearest":
        result = result.astype("f32")
    positions = {axis: dim.places(mode) for axis, dim in dims.items()}
    for axis, dim in dims.items():
        if method == "nearest":
            result = take(result, _nearest(positions[axis], dim.size, call["nearest_mode"] or "floor"), axis)
        else:
            rows, weights = _taps(call, positions[axis], dim, "cubic" if method == "cubic" else "linear")
            factors = tensor(weights, result.type.dtype)
            taps = range(rows.shape[1])
            weighted_rows = [take(result, rows[:, n], axis) * _along(factors[:, n], axis, x.ndim) for n in taps]
            result = reduce(add, weighted_rows)
    if mode == "tf_crop_and_resize":
        for axis, dim in dims.items():
            inside = (positions[axis] >= 0) & (positions[axis] <= dim.size - 1)
            result = where(_along(inside, axis, x.ndim), result, float(call["extrapolation_value"]))
    return result.astype(kind)


def _along(vector: Any, axis: int, rank: int) -> Any:
    """Reshape a vector to broadcast along a dim of a tensor of this rank."""
    return vector.reshape([-1 if d == axis else 1 for d in range(rank)])


def _functions(positions: Places) -> Any:
    """Return `numpy` if `positions` is an array, else a namespace with the traced functions of the same names."""
    return np if isinstance(positions, np.ndarray) else SimpleNamespace(**OPS)


def _to_indices(rows: Places, size: int) -> Any:
    """Clamp row indices to [0, size - 1] and convert them to i32."""
    inside = _functions(rows).clip(rows, 0, size - 1)
    return inside.astype(np.int32)


# Rounding modes: (number to add before rounding, rounding function).
_ROUNDINGS = {
    "round_prefer_floor": (-0.5, "ceil"),
    "round_prefer_ceil": (0.5, "floor"),
    "floor": (0.0, "floor"),
    "ceil": (0.0, "ceil"),
}


def _nearest(positions: Places, size: int, mode: str) -> Any:
    """Return the index of the old row that is nearest to each position, with ties rounded as `mode` says."""
    if mode not in _ROUNDINGS:
        refuse(f"'{mode}' is not a rounding mode", f"supported are {', '.join(_ROUNDINGS)}")
    shift, function = _ROUNDINGS[mode]
    return _to_indices(getattr(_functions(positions), function)(positions + shift if shift else positions), size)


def _taps(call: Call, positions: Places, dim: Dim, kind: str) -> tuple[Any, Any]:
    """Return the old rows that contribute to each new row, and the weights of these rows; both have shape [new, taps].

    With the attribute `antialias`, the interpolation kernel is stretched in dims that become smaller.
    """
    reach = {"linear": 1, "cubic": 2}[kind]
    scale = min(dim.scale, 1.0) if call["antialias"] else 1.0
    half = math.floor(reach / scale) + 1 if scale < 1 else reach
    require_small_array("Resize", dim.new, 2 * half)
    require_operations(2 * half, "Resize", current().at)
    xp = _functions(positions)
    wide: Any = positions.astype(np.float64) if isinstance(positions, np.ndarray) else positions
    rows = xp.floor(wide)[:, None] + np.arange(1 - half, half + 1, dtype=wide.dtype)
    weights = _weight(xp.abs(rows - wide[:, None]) * scale, kind, call["cubic_coeff_a"])
    if call["exclude_outside"]:
        weights = xp.where((rows >= 0) & (rows < dim.size), weights, 0)
    weights = weights / xp.sum(weights, 1, keepdims=True)
    return _to_indices(rows, dim.size), weights


def _weight(distance: Any, kind: str, a: float) -> Any:
    """Return the weight of an old row at `distance` from the position, for the interpolation `kind` (linear or cubic)."""
    xp = _functions(distance)
    if kind == "linear":
        return xp.clip(1 - distance, 0, 1)
    return xp.where(distance <= 1, cubic_near(distance, a), xp.where(distance < 2, cubic_far(distance, a), 0))
