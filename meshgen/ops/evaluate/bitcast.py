"""The bits of elements as elements of another type, first those of least weight.

NumPy keeps elements of less than a byte in a byte each, so that these cannot be viewed as others: their bits are cut and joined.
"""

from __future__ import annotations

import numpy as np

from meshgen.ir.graph import DTYPES, dtype_name
from meshgen.ops.evaluate.common import Array, bits


def bitcast(x: Array, dtype: str) -> Array:
    """`x` as elements of `dtype`: narrower ones add a last dim, wider ones take it away."""
    source, target = bits(dtype_name(x.dtype)), bits(dtype)
    width = min(source, target)
    if dtype == dtype_name(x.dtype):
        return x.copy()
    if width >= 8:
        found = x.copy(order="C")[..., None] if source > target else x.copy(order="C")  # also where x is 0-d
        return found.view(DTYPES[dtype])[..., 0] if source < target else found.view(DTYPES[dtype])
    units = _units(x, source, width)
    if source > target:
        shape = (*x.shape, source // target, target // width)
    else:
        shape = (*(x.shape if source == target else x.shape[:-1]), target // width)
    return _elements_of_bits(units.reshape(shape), dtype, target, width)


def _units(x: Array, source: int, width: int) -> Array:
    """The bits of each element in bytes of `width` of them: as a new last dim."""
    raw = np.ascontiguousarray(x[..., None]).view(np.uint8)
    cut = raw[..., None] >> np.arange(0, min(source, 8), width, dtype=np.uint8)
    return (cut & (2**width - 1)).reshape(*x.shape, source // width)


def _elements_of_bits(units: Array, dtype: str, target: int, width: int) -> Array:
    """Elements of the bits that the last dim holds, `width` in each."""
    per_byte = min(target, 8) // width
    parts = units.reshape(*units.shape[:-1], -1, per_byte) << np.arange(0, min(target, 8), width, dtype=np.uint8)
    raw = np.bitwise_or.reduce(parts, -1)
    if target >= 8:
        return np.ascontiguousarray(raw).view(DTYPES[dtype])[..., 0]
    is_negative = (raw >= 2 ** (target - 1)) if not dtype.startswith("u") else np.zeros(raw.shape, bool)
    return (raw.astype(np.int8) - is_negative * np.int8(2**target)).astype(DTYPES[dtype])[..., 0]
