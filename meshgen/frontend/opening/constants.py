"""Rebuild constants that differ between sizes as operations on the sizes.

Supported are element counts and their reciprocals, lists of sizes, and tensors that are linear in the indices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.frontend.opening.emit_formulas import FormulaEmitter
from meshgen.frontend.opening.fitting import Formulas
from meshgen.frontend.tracer.operands import convert, emit, tensor
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import TensorType, is_inexact
from meshgen.ir.symbols import Expr

Array = np.ndarray[Any, Any]
LONGEST = 256  # Elements of the longest array that gets a formula per element. Chosen: lists of sizes are shorter.


def emit_constant(arrays: Sequence[Array], kind: TensorType, shape: Sequence[Expr], formulas: Formulas, amounts: FormulaEmitter) -> Tensor | None:  # fmt: skip
    """Emit operations that compute `arrays[i]` if the sizes are those of point i.

    Args:
        arrays: the constant at each point; an array of one element stands for a tensor of equal elements.
        kind, shape: the type of the constant, and its sizes as formulas.

    Returns:
        The constant, or None if no formula of the sizes fits.
    """
    if all(array.size == 1 or (array == array.flat[0]).all() for array in arrays if array.size):
        number = _number([array.flat[0] for array in arrays], kind.dtype, formulas, amounts)
        return None if number is None else broadcast_scalar(number, kind, shape, amounts)
    if None not in kind.shape:
        return _elements(arrays, kind, formulas, amounts)
    return _counter(arrays, kind, shape, formulas, amounts)


def broadcast_scalar(x: Tensor, kind: TensorType, shape: Sequence[Expr], amounts: FormulaEmitter) -> Tensor:
    """Broadcast the scalar `x` to a tensor of type `kind`. `shape` has the sizes of the tensor as formulas."""
    if not kind.rank:
        return reshape(x, ())
    if None not in kind.shape:
        return emit("broadcast_in_dim", [reshape(x, ())], kind, {"dims": ()})
    return emit("dynamic_broadcast_in_dim", [reshape(x, ()), amounts.vector(shape)], kind, {"dims": ()})


def _number(values: Sequence[Any], dtype: str, formulas: Formulas, amounts: FormulaEmitter) -> Tensor | None:
    """Return a scalar that equals `values[i]` at point i: a formula of sizes, or the reciprocal of one.

    None if nothing fits.
    """
    if all(value == values[0] or (value != value and values[0] != values[0]) for value in values):
        return tensor(np.asarray(values[0]))
    for integer_candidates, from_integer in (
        (list(values), lambda x: x),
        ([_reciprocal(value) for value in values], lambda x: 1.0 / x),
    ):
        rounded = [round(float(value.real)) if np.isfinite(value) else 0 for value in integer_candidates]
        formula = formulas.of(rounded)
        if formula is None or not amounts.has(formula):
            continue
        numpy_dtype = np.asarray(values[0]).dtype
        with np.errstate(all="ignore"):
            recomputed = [np.asarray(from_integer(numpy_dtype.type(value))).astype(numpy_dtype) for value in rounded]
        if all(a == b for a, b in zip(recomputed, values, strict=True)):
            return from_integer(convert(amounts.scalar(formula), dtype))
        if not is_inexact(dtype):
            break
    return None


def _reciprocal(value: Any) -> Any:
    return 1.0 / float(value.real) if value else np.inf


def _elements(arrays: Sequence[Array], kind: TensorType, formulas: Formulas, amounts: FormulaEmitter) -> Tensor | None:
    """Return an integer tensor of fixed shape with a formula for each element, or None if an element has none."""
    if kind.size > LONGEST or is_inexact(kind.dtype):
        return None
    elements_by_point = [[int(n) for n in np.broadcast_to(array, kind.sizes).reshape(-1)] for array in arrays]
    element_formulas = formulas.of_all([*zip(*elements_by_point, strict=True)])
    if element_formulas is None or not all(map(amounts.has, element_formulas)):
        return None
    return reshape(convert(amounts.vector(element_formulas), kind.dtype), kind.sizes)


def _counter(arrays: Sequence[Array], kind: TensorType, shape: Sequence[Expr], formulas: Formulas, amounts: FormulaEmitter) -> Tensor | None:  # fmt: skip
    """Return an integer tensor that is linear in the indices, such as row numbers, or None if `arrays` are not linear."""
    if is_inexact(kind.dtype) or kind.dtype == "i1" or min(min(array.shape) for array in arrays) < 1:
        return None
    coefficients_by_point = [_line(array) for array in arrays]
    if any(line is None for line in coefficients_by_point):
        return None
    coefficients = formulas.of_all([*zip(*(line for line in coefficients_by_point if line), strict=True)])
    if coefficients is None or not all(map(amounts.has, coefficients)):
        return None
    total = broadcast_scalar(convert(amounts.scalar(coefficients[0]), kind.dtype), kind, shape, amounts)
    for dim, step in enumerate(coefficients[1:]):
        if step.number != 0:
            index = emit("dynamic_iota", [amounts.vector(shape)], kind, {"dim": dim})
            step_tensor = broadcast_scalar(convert(amounts.scalar(step), kind.dtype), kind, shape, amounts)
            total = emit("add", [total, emit("multiply", [index, step_tensor], kind)], kind)
    return total


def _line(array: Array) -> list[int] | None:
    """Return the first element of `array` and the step along each dim, or None if it is not linear in the indices."""
    first = int(array.flat[0])
    steps = [int(np.take(array, 1, d).flat[0]) - first if size > 1 else 0 for d, size in enumerate(array.shape)]
    grid = np.indices(array.shape, np.int64)
    linear = first + sum((step * grid[d] for d, step in enumerate(steps)), np.zeros(array.shape, np.int64))
    return [first, *steps] if (array == linear).all() else None
