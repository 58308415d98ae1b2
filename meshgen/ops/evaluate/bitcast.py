"""Reinterpret the bits of elements as elements of another type, least significant bits first.

NumPy stores an element narrower than a byte in a byte of its own, so `view` cannot reinterpret it. Its bits are
therefore split and joined explicitly.
"""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import DTYPES, dtype_name
from meshgen.ops.evaluate.common import Array, bits


def bitcast(x: Array, dtype: str) -> Array:
    """Reinterpret the bits of `x` as elements of `dtype`.

    A narrower type appends a minor dim to the shape, and a wider type removes the last dim: f32[4] -> i8[4,4] ->
    f32[4].
    """
    source, target = bits(dtype_name(x.dtype)), bits(dtype)
    width = min(source, target)
    if dtype == dtype_name(x.dtype):
        return x.copy()
    if width >= 8:
        # Unlike np.ascontiguousarray, `copy` keeps a 0-d array 0-d.
        contiguous = x.copy(order="C")[..., None] if source > target else x.copy(order="C")
        return contiguous.view(DTYPES[dtype])[..., 0] if source < target else contiguous.view(DTYPES[dtype])
    units = _units(x, source, width)
    if source > target:
        shape = (*x.shape, source // target, target // width)
    else:
        shape = (*(x.shape if source == target else x.shape[:-1]), target // width)
    return _elements_of_bits(units.reshape(shape), dtype, target, width)


def _units(x: Array, source: int, width: int) -> Array:
    """Split each element into units of `width` bits, one per byte, along a new last dim."""
    raw = np.ascontiguousarray(x[..., None]).view(np.uint8)
    shifted = raw[..., None] >> np.arange(0, min(source, 8), width, dtype=np.uint8)
    return (shifted & (2**width - 1)).reshape(*x.shape, source // width)


def _elements_of_bits(units: Array, dtype: str, target: int, width: int) -> Array:
    """Join the units of `width` bits along the last dim into elements of `dtype`."""
    per_byte = min(target, 8) // width
    parts = units.reshape(*units.shape[:-1], -1, per_byte) << np.arange(0, min(target, 8), width, dtype=np.uint8)
    raw = np.bitwise_or.reduce(parts, -1)
    if target >= 8:
        return np.ascontiguousarray(raw).view(DTYPES[dtype])[..., 0]
    is_negative = (raw >= 2 ** (target - 1)) if not dtype.startswith("u") else np.zeros(raw.shape, bool)
    return (raw.astype(np.int8) - is_negative * np.int8(2**target)).astype(DTYPES[dtype])[..., 0]
