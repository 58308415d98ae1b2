"""What all families of the NumPy evaluator share: compute types, rounding, poison, neutral elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from meshgen.ir.graph import DTYPES, Graph, Node, is_float

Array = np.ndarray[Any, Any]
RunRegion = Callable[[Graph, list[Array]], list[Array]]
Handler = Callable[[Node, list[Array], RunRegion], list[Array]]

_NATIVE_FLOATS = ("f32", "f64")
_NIBBLES = ("i4", "ui4")
_UFUNCS: dict[str, Any] = {
    "add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip


def compute_dtype(dtype: str) -> np.dtype[Any]:
    """The NumPy type in which values of an IR element type are computed: narrow floats in f32, 4-bit in i32."""
    if is_float(dtype) and dtype not in _NATIVE_FLOATS:
        return np.dtype(np.float32)
    return np.dtype(np.int32) if dtype in _NIBBLES else DTYPES[dtype]


def widen(array: Array, dtype: str) -> Array:
    """`array` of an IR element type in its compute type (itself where that is the same)."""
    return np.asarray(array).astype(compute_dtype(dtype), copy=False)


def narrow(array: Any, dtype: str) -> Array:
    """A result in its IR element type: floats rounded to nearest even, once; integers wrapped."""
    return np.asarray(array).astype(DTYPES[dtype], copy=False)


def ufunc_of(kind: str) -> Any:
    """The NumPy ufunc of a reduce kind (`add`, `maximum`, ...)."""
    return _UFUNCS[kind]


def bits(dtype: str) -> int:
    """Width of an element in bits."""
    return 4 if dtype in _NIBBLES else 1 if dtype == "i1" else DTYPES[dtype].itemsize * 8


def integer_range(dtype: str) -> tuple[int, int]:
    """Least and greatest value of an integer or boolean element type."""
    width = bits(dtype)
    return (
        (0, (1 << width) - 1) if dtype == "i1" or dtype.startswith("u") else (-(1 << width - 1), (1 << width - 1) - 1)
    )


def neutral(kind: str, dtype: str) -> Array:
    """The 0-d neutral element of a reduce kind, spelt as an op (`add`) or as a partial kind (`sum`)."""
    if kind in ("maximum", "max", "minimum", "min"):
        least = kind.startswith("max")
        if is_float(dtype):
            value: Any = _lowest(dtype) if least else -_lowest(dtype)
        else:
            value = integer_range(dtype)[0 if least else 1]
    elif kind == "and":
        value = _all_ones(dtype)
    else:
        value = 1 if kind in ("multiply", "product") else 0
    return np.array(value, DTYPES[dtype])


def _lowest(dtype: str) -> float:
    return -448.0 if dtype == "f8E4M3FN" else float("-inf")  # that type has no infinity


def _all_ones(dtype: str) -> int:
    low, high = integer_range(dtype)
    return high if low == 0 else -1


def poison(dtype: str) -> Array:
    """The 0-d value that marks what must never be read: NaN, or for integers a bit pattern unlikely in data."""
    if is_float(dtype):
        return np.array(np.nan, DTYPES[dtype])
    if dtype == "i1":
        return np.array(True)
    if dtype in _NIBBLES:
        return np.array(5, DTYPES[dtype])
    return np.frombuffer(b"\xa5" * DTYPES[dtype].itemsize, DTYPES[dtype]).reshape(())


def poisoned(shape: tuple[int, ...], dtype: str) -> Array:
    """A fresh array that is poison all over."""
    return np.full(shape, poison(dtype), DTYPES[dtype])
