"""Functions whose plain formula is not exact, or not defined, for complex numbers; of real ones they are NumPy's."""

from __future__ import annotations

import numpy as np

from meshgen.ops.evaluate.common import Array


def log_plus_one(z: Array) -> Array:
    """log(1 + z), without cancellation near 0 (NumPy's complex one has that)."""
    if z.dtype.kind != "c":
        return np.log1p(z)
    x, y = (part.astype(np.float64, copy=False) for part in (z.real, z.imag))
    near = np.abs(z) < 0.5
    squares = np.where(near, x * (2 + x) + y * y, 0.0)
    with np.errstate(divide="ignore"):  # log(0) is minus infinity
        far = np.log(np.hypot(1 + x, y))
    found = np.empty_like(z)  # filled part by part: a sum with 1j * y loses the sign of a zero
    found.real, found.imag = np.where(near, 0.5 * np.log1p(squares), far), np.arctan2(y, 1 + x)
    return found


def logistic(z: Array) -> Array:
    """1 / (1 + exp(-z)), without an overflow of exp, which would make a NaN of a complex infinity / infinity."""
    small = np.exp(np.where(z.real < 0, z, -z))
    return np.where(z.real < 0, small, 1) / (1 + small)


def arc_tangent(y: Array, x: Array) -> Array:
    """atan2; of complex numbers the principal value -i log((x + iy) / sqrt(x^2 + y^2)), as in XLA."""
    if y.dtype.kind != "c":
        return np.arctan2(y, x)
    wide = [part.astype(np.complex128, copy=False) for part in (y, x)]
    ratio = (wide[1] + 1j * wide[0]) / np.sqrt(wide[1] * wide[1] + wide[0] * wide[0])
    return (-1j * np.log(ratio)).astype(y.dtype)
