"""Element types of results by PyTorch's rules.

The highest category counts (bool, integer, float, complex); tensors with dims decide before those without, and these before numbers, which count
as i64, f32 or c64. Source: "Type promotion" in the documentation of `torch.tensor_attributes`; c10/core/ScalarType.h.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce, wraps
from typing import Any

import numpy as np

from meshgen.frontend.tracer.elementwise import as_float
from meshgen.frontend.tracer.operands import aligned, convert, tensor
from meshgen.frontend.tracer.reduce import widened
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Operand, Tensor
from meshgen.ir.graph import DTYPES, dtype_name, is_complex, is_float, is_inexact

_DEFAULT = {bool: "i1", int: "i64", float: "f32", complex: "c64"}


def result_type(*operands: Operand) -> str:
    """The element type of an operation on these tensors and numbers."""
    levels: list[list[str]] = [[], [], []]
    for x in operands:
        level = 2 if not isinstance(x, Tensor) else 0 if x.ndim else 1
        levels[level].append(x.type.dtype if isinstance(x, Tensor) else _DEFAULT[type(x)])
    found = [reduce(_common, dtypes) for dtypes in levels if dtypes]
    return reduce(_decided, found)


def promoted(*operands: Operand, floats: bool = False) -> list[Tensor]:
    """The operands at one element type and one shape; with `floats` integers become f32."""
    dtype = result_type(*operands)
    return aligned(*operands, dtype="f32" if floats and not is_inexact(dtype) else dtype)


def floats(x: Operand, dtype: str | None = None) -> Tensor:
    """The tensor as floats, of a type if one is given."""
    return as_float(x) if dtype is None else convert(tensor(x), dtype)


_Function = Callable[..., Any]
_WIDEST = {bool: "i1", int: "i64", float: "f64", complex: "c128"}  # tensors that torch makes of numbers


def _converting(count: int, convert: Callable[..., list[Tensor]]) -> Callable[[_Function], _Function]:
    """Return a decorator that converts the first `count` operands of a function."""
    return lambda function: wraps(function)(
        lambda *args, **options: function(*convert(*args[:count]), *args[count:], **options)
    )


# Decorators: a function takes a number as a tensor, or integers as floats; it takes two operands at one type and shape, or at one of floats.
in_tensors = _converting(1, lambda x: [tensor(x, _WIDEST.get(type(x)))])
in_floats = _converting(1, lambda x: [as_float(tensor(x, _WIDEST.get(type(x))))])
in_common_type = _converting(2, promoted)
in_common_floats = _converting(2, lambda *operands: promoted(*operands, floats=True))


def rounded_once(function: _Function) -> _Function:
    """Let a function compute narrow floats in f32, as PyTorch does; its result has the type of its first operand."""

    @wraps(function)
    def rounded(x: Operand, *args: Any, **options: Any) -> Tensor:
        widened_x, dtype = wide(x)
        rest = [wide(each)[0] if isinstance(each, Tensor) else each for each in args]
        return convert(function(widened_x, *rest, **options), dtype)

    return rounded


def on_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let a function of rows along a dim take tensors without dims as single rows, as PyTorch does."""

    @wraps(function)
    def lifted(x: Tensor, *args: Any, **options: Any) -> Any:
        if x.ndim:
            return function(x, *args, **options)
        rest = [_as_row(each) for each in args]
        results = function(_as_row(x), *rest, **{name: _as_row(each) for name, each in options.items()})
        return tuple(reshape(each, ()) for each in results) if isinstance(results, tuple) else reshape(results, ())

    return lifted


def _as_row(x: Any) -> Any:
    return reshape(x, (1,)) if isinstance(x, Tensor) and not x.ndim else x


def wide(x: Operand) -> tuple[Tensor, str]:
    """The tensor with narrow floats as f32, in which PyTorch computes them, and the element type of the result."""
    x = as_float(x)
    return widened(x), x.type.dtype


def _category(dtype: str) -> int:
    return 0 if dtype == "i1" else 3 if is_complex(dtype) else 2 if is_float(dtype) else 1


def _decided(higher: str, lower: str) -> str:
    """The type of two levels: the first one's, unless the second is of a higher category."""
    if _category(lower) <= _category(higher):
        return higher
    if is_complex(lower) and is_float(higher):
        return "c128" if higher == "f64" else "c64"
    return lower


def _common(left: str, right: str) -> str:
    """The type of two of one level."""
    if _category(left) != _category(right):
        return left if _category(left) > _category(right) else right
    try:
        return dtype_name(np.promote_types(DTYPES[left], DTYPES[right]))
    except (TypeError, KeyError):
        return "f32"  # bf16 and f16: neither holds the other
