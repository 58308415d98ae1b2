"""Shared helpers of the NumPy evaluator: compute types, rounding, poison and neutral elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from meshgen.ir.graph import DTYPES, Graph, Node, is_float, is_inexact

Array = np.ndarray[Any, Any]
RunRegion = Callable[[Graph, list[Array]], list[Array]]
Handler = Callable[[Node, list[Array], RunRegion], list[Array]]

_NATIVE_FLOATS = ("f32", "f64")
_PARTS_OF_BYTES = {"i1": 1, "i2": 2, "ui2": 2, "i4": 4, "ui4": 4}
_UFUNCS: dict[str, Any] = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def compute_dtype(dtype: str) -> np.dtype[Any]:
    """Return the NumPy type for computing with an IR element type: f32 for narrow floats, i32 for 2- and 4-bit
    integers.
    """
    if is_float(dtype) and dtype not in _NATIVE_FLOATS:
        return np.dtype(np.float32)
    return np.dtype(np.int32) if dtype in _PARTS_OF_BYTES and dtype != "i1" else DTYPES[dtype]


def widen(array: Array, dtype: str) -> Array:
    """Convert an array of IR element type `dtype` to the compute type. Returns `array` itself if both types are equal."""
    return np.asarray(array).astype(compute_dtype(dtype), copy=False)


def narrow(array: Any, dtype: str) -> Array:
    """Convert a result to IR element type `dtype`. Floats are rounded once, to nearest even; integers wrap around."""
    return np.asarray(array).astype(DTYPES[dtype], copy=False)


def ufunc_of(kind: str) -> Any:
    """Return the NumPy ufunc of a reduce kind (`add`, `maximum`, ...)."""
    return _UFUNCS[kind]


def bits(dtype: str) -> int:
    """Return the width of an element in bits."""
    return _PARTS_OF_BYTES.get(dtype) or DTYPES[dtype].itemsize * 8


def integer_range(dtype: str) -> tuple[int, int]:
    """Return the smallest and largest value of an integer or boolean element type."""
    width = bits(dtype)
    return (
        (0, (1 << width) - 1) if dtype == "i1" or dtype.startswith("u") else (-(1 << width - 1), (1 << width - 1) - 1)
    )


def neutral(kind: str, dtype: str) -> Array:
    """Return the 0-d neutral element of a reduce kind. `kind` is an op name (`add`) or a partial kind (`sum`)."""
    if kind in ("maximum", "max", "minimum", "min"):
        least = kind.startswith("max")
        if is_float(dtype):
            value: Any = _largest_or_smallest(dtype, least)
        else:
            value = integer_range(dtype)[0 if least else 1]
    elif kind == "and":
        value = _all_ones(dtype)
    else:
        value = 1 if kind in ("multiply", "product") else 0
    return np.array(value, DTYPES[dtype])


def _largest_or_smallest(dtype: str, least: bool) -> float:
    """Return -inf if `least`, else inf. If the type has no infinities, return the smallest or largest finite value."""
    infinity = np.array(-np.inf if least else np.inf, DTYPES[dtype]).astype(np.float64)
    limits = ml_dtypes.finfo(DTYPES[dtype])
    return float(infinity if np.isinf(infinity) else limits.min if least else limits.max)


def _all_ones(dtype: str) -> int:
    low, high = integer_range(dtype)
    return high if low == 0 else -1


def poison(dtype: str) -> Array:
    """Return the 0-d value that fills elements which no op may read.

    For floats it is NaN; for integers it is a bit pattern that is unlikely in data.
    """
    if is_inexact(dtype):
        return np.array(complex(np.nan, np.nan) if dtype.startswith("c") else np.nan, DTYPES[dtype])
    if dtype in _PARTS_OF_BYTES:
        return np.array(5 if bits(dtype) == 4 else 1, DTYPES[dtype])
    return np.frombuffer(b"\xa5" * DTYPES[dtype].itemsize, DTYPES[dtype]).reshape(())


def poisoned(shape: tuple[int, ...], dtype: str) -> Array:
    """Return a new array filled with `poison`."""
    return np.full(shape, poison(dtype), DTYPES[dtype])
