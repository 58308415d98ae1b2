"""Functions whose textbook formula is inaccurate or undefined for complex numbers. Real arguments use NumPy's
functions.
"""

from __future__ import annotations

import numpy as np

from meshgen.ops.evaluate.common import Array


def log_plus_one(z: Array) -> Array:
    """Return log(1 + z) without cancellation near 0, which NumPy's complex `log1p` suffers from."""
    if z.dtype.kind != "c":
        return np.log1p(z)
    x, y = (part.astype(np.float64, copy=False) for part in (z.real, z.imag))
    near = np.abs(z) < 0.5
    squares = np.where(near, x * (2 + x) + y * y, 0.0)
    with np.errstate(divide="ignore"):  # log(0) is minus infinity.
        far = np.log(np.hypot(1 + x, y))
    result = np.empty_like(z)  # Set the parts separately: adding 1j * y would lose the sign of a zero.
    result.real, result.imag = np.where(near, 0.5 * np.log1p(squares), far), np.arctan2(y, 1 + x)
    return result


def logistic(z: Array) -> Array:
    """Return 1 / (1 + exp(-z)) without overflow in exp, which would give NaN (complex infinity / infinity)."""
    small = np.exp(np.where(z.real < 0, z, -z))
    return np.where(z.real < 0, small, 1) / (1 + small)


def arc_tangent(y: Array, x: Array) -> Array:
    """Return atan2(y, x). For complex numbers it is the principal value -i log((x + iy) / sqrt(x^2 + y^2)), as in XLA."""
    if y.dtype.kind != "c":
        return np.arctan2(y, x)
    wide = [part.astype(np.complex128, copy=False) for part in (y, x)]
    ratio = (wide[1] + 1j * wide[0]) / np.sqrt(wide[1] * wide[1] + wide[0] * wide[0])
    return (-1j * np.log(ratio)).astype(y.dtype)
