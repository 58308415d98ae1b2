"""PyTorch's type promotion: the common dtype of several operands.

The highest category (bool, integer, float, complex) determines the category. Within a category, tensors with dims take
precedence over zero-dim tensors, and these over Python numbers, which count as i64, f32 or c64.

Source: "Type promotion" in the documentation of `torch.tensor_attributes`; c10/core/ScalarType.h.
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
    """Return the result dtype of an operation on these tensors and numbers, by PyTorch's rules."""
    levels: list[list[str]] = [[], [], []]
    for x in operands:
        level = 2 if not isinstance(x, Tensor) else 0 if x.ndim else 1
        levels[level].append(x.type.dtype if isinstance(x, Tensor) else _DEFAULT[type(x)])
    level_dtypes = [reduce(_promote_in_level, dtypes) for dtypes in levels if dtypes]
    return reduce(_promote_levels, level_dtypes)


def promoted(*operands: Operand, floats: bool = False) -> list[Tensor]:
    """Convert the operands to their common dtype and shape; with `floats`, an integer dtype becomes f32."""
    dtype = result_type(*operands)
    return aligned(*operands, dtype="f32" if floats and not is_inexact(dtype) else dtype)


def floats(x: Operand, dtype: str | None = None) -> Tensor:
    """Convert `x` to `dtype`, or if `dtype` is None, to f32 unless it is already a float or complex tensor."""
    return as_float(x) if dtype is None else convert(tensor(x), dtype)


_Function = Callable[..., Any]
# Dtypes of the tensors that torch creates from Python numbers.
_WIDEST = {bool: "i1", int: "i64", float: "f64", complex: "c128"}


def _convert_operands(count: int, convert: Callable[..., list[Tensor]]) -> Callable[[_Function], _Function]:
    """Return a decorator that applies `convert` to the first `count` operands of a function."""
    return lambda function: wraps(function)(
        lambda *args, **options: function(*convert(*args[:count]), *args[count:], **options)
    )


# Decorators that convert operands. The first two convert one operand, to a tensor or to a float tensor.
# The other two convert two operands to one shape and a common dtype, or to a common float dtype.
in_tensors = _convert_operands(1, lambda x: [tensor(x, _WIDEST.get(type(x)))])
in_floats = _convert_operands(1, lambda x: [as_float(tensor(x, _WIDEST.get(type(x))))])
in_common_type = _convert_operands(2, promoted)
in_common_floats = _convert_operands(2, lambda *operands: promoted(*operands, floats=True))


def rounded_once(function: _Function) -> _Function:
    """Decorate a function to compute 16-bit floats in f32, as PyTorch does. The result has the first operand's dtype."""

    @wraps(function)
    def rounded(x: Operand, *args: Any, **options: Any) -> Tensor:
        widened_x, dtype = wide(x)
        other_args = [wide(argument)[0] if isinstance(argument, Tensor) else argument for argument in args]
        return convert(function(widened_x, *other_args, **options), dtype)

    return rounded


def on_rows(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function on rows so that it also accepts zero-dim tensors, as rows of length 1, as PyTorch does."""

    @wraps(function)
    def lifted(x: Tensor, *args: Any, **options: Any) -> Any:
        if x.ndim:
            return function(x, *args, **options)
        other_args = [_as_row(value) for value in args]
        results = function(_as_row(x), *other_args, **{name: _as_row(value) for name, value in options.items()})
        return tuple(reshape(value, ()) for value in results) if isinstance(results, tuple) else reshape(results, ())

    return lifted


def _as_row(x: Any) -> Any:
    return reshape(x, (1,)) if isinstance(x, Tensor) and not x.ndim else x


def wide(x: Operand) -> tuple[Tensor, str]:
    """Return (x as a float tensor with 16-bit floats widened to f32, dtype to which the result must be rounded)."""
    x = as_float(x)
    return widened(x), x.type.dtype


def _category(dtype: str) -> int:
    return 0 if dtype == "i1" else 3 if is_complex(dtype) else 2 if is_float(dtype) else 1


def _promote_levels(higher: str, lower: str) -> str:
    """Combine the dtypes of two precedence levels.

    The dtype of the higher level wins, unless the dtype of the lower level has a higher category (float over integer).
    """
    if _category(lower) <= _category(higher):
        return higher
    if is_complex(lower) and is_float(higher):
        return "c128" if higher == "f64" else "c64"
    return lower


def _promote_in_level(left: str, right: str) -> str:
    """Return the common dtype of two dtypes of one precedence level, for example of two tensors with dims."""
    if _category(left) != _category(right):
        return left if _category(left) > _category(right) else right
    try:
        return dtype_name(np.promote_types(DTYPES[left], DTYPES[right]))
    except (TypeError, KeyError):
        return "f32"  # Neither bf16 nor f16 can represent all numbers of the other.
