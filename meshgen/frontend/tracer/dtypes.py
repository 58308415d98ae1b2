"""The dtypes and constants of the array-API standard, and functions that inspect dtypes."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

from meshgen.frontend.tracer.operands import dtype_of, promote, tensor
from meshgen.frontend.tracer.recording import named, refuse, traced
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import DTYPES, real_dtype

_KINDS = {
    "bool": ("bool",),
    "signed integer": ("int8", "int16", "int32", "int64"),
    "unsigned integer": ("uint8", "uint16", "uint32", "uint64"),
    "real floating": ("float32", "float64", "float16", "bfloat16"),
    "complex floating": ("complex64", "complex128"),
}
_UNIONS = {
    "integral": ("signed integer", "unsigned integer"),
    "numeric": ("signed integer", "unsigned integer", "real floating", "complex floating"),
}
CONSTANTS: dict[str, Any] = {
    "e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi, "bfloat16": ml_dtypes.bfloat16,
    "__array_api_version__": "2024.12",
    **{name: getattr(np, name) for names in _KINDS.values() for name in names if name != "bfloat16"},
}  # fmt: skip


def _dtype(value: Any) -> np.dtype[Any]:
    """Return the dtype of a tensor, of an array, or of a dtype in any notation."""
    return value.dtype if isinstance(value, (Tensor, np.ndarray, np.generic)) else DTYPES[dtype_of(value)]


@traced
def result_type(*operands: Any) -> np.dtype[Any]:
    """Return the dtype of the result of an operation on these tensors, dtypes and numbers."""
    return DTYPES[promote(*(np.empty(0, _dtype(x)) if _is_dtype(x) else x for x in operands))]


def _is_dtype(value: Any) -> bool:
    return isinstance(value, (np.dtype, type, str))


@traced
def can_cast(from_: Any, to: Any) -> bool:
    """Whether the promotion rules allow a conversion from dtype `from_` to dtype `to`."""
    return result_type(_dtype(from_), _dtype(to)) == _dtype(to)


@traced
def isdtype(dtype: Any, kind: Any) -> bool:
    """Whether `dtype` matches `kind`: a dtype, a category (`"real floating"`, `"integral"`, ...), or a tuple of these."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, kind_name) for kind_name in kind)
    if not isinstance(kind, str):
        return _dtype(dtype) == _dtype(kind)
    if kind not in {**_KINDS, **_UNIONS}:
        refuse(f"'{kind}' is not a kind of types", f"the kinds are {', '.join([*_KINDS, *_UNIONS])}")
    return any(_dtype(dtype).name in _KINDS[kind_name] for kind_name in _UNIONS.get(kind, (kind,)))


@traced
def finfo(type: Any) -> Any:
    """Return the limits of a floating-point dtype: bits, eps, max, min, smallest_normal.

    For a complex dtype, they are the limits of its real part.
    """
    info = ml_dtypes.finfo(DTYPES[real_dtype(dtype_of(_dtype(type)))])
    numbers = {name: float(getattr(info, name)) for name in ("eps", "max", "min", "smallest_normal", "tiny")}
    return SimpleNamespace(bits=info.bits, nmant=info.nmant, dtype=info.dtype, **numbers)


@traced
def iinfo(type: Any) -> Any:
    """Return the limits of an integer dtype: bits, max, min."""
    info = ml_dtypes.iinfo(_dtype(type))
    return SimpleNamespace(bits=info.bits, max=int(info.max), min=int(info.min), dtype=_dtype(type))


@named("__array_namespace_info__")
def array_namespace_info() -> Any:
    """Return the object by which the array-API standard describes the devices and dtypes of a library.

    The default dtypes are those of `zeros`, `arange` and `exp(1j)`.
    """
    defaults = {"real floating": "float32", "complex floating": "complex64", "integral": "int32", "indexing": "int32"}

    def dtypes(*, device: Any = None, kind: Any = None) -> dict[str, np.dtype[Any]]:
        names = [name for names in _KINDS.values() for name in names if name in dir(np)]
        return {name: np.dtype(name) for name in names if kind is None or isdtype(np.dtype(name), kind)}

    return SimpleNamespace(
        capabilities=lambda: {"boolean indexing": False, "data-dependent shapes": False, "max dimensions": 32},
        default_device=lambda: "mesh",
        devices=lambda: ["mesh"],
        dtypes=dtypes,
        default_dtypes=lambda *, device=None: {kind: np.dtype(name) for kind, name in defaults.items()},
    )


@named("asarray", "array")
def asarray(x: Operand, dtype: Any = None, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Convert an array, nested lists or a number to a tensor, by default of the same dtype."""
    return tensor(x, None if dtype is None else dtype_of(dtype))


@traced
def from_dlpack(x: Operand, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """Return a constant with the elements of another library's array, which supports the DLPack protocol."""
    return tensor(x if isinstance(x, Tensor) else np.from_dlpack(x))
