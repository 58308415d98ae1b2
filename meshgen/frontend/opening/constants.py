"""Constants that depend on sizes, as operations on these: numbers of elements and their reciprocals, lists of sizes, counters along dims."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.frontend.opening.amounts import Amounts
from meshgen.frontend.opening.fitting import Formulas
from meshgen.frontend.tracer.operands import convert, emit, tensor
from meshgen.frontend.tracer.shapes import reshape
from meshgen.frontend.tracer.tensor import Tensor
from meshgen.ir.graph import TensorType, is_inexact
from meshgen.ir.symbols import Expr

Array = np.ndarray[Any, Any]
LONGEST = 256  # elements of a constant of one shape whose elements are formulas: lists of sizes are short


def written(arrays: Sequence[Array], kind: TensorType, shape: Sequence[Expr], formulas: Formulas, amounts: Amounts) -> Tensor | None:  # fmt: skip
    """The value of these arrays at the points of the formulas, of this type and shape; None where they are not formulas of sizes.

    An array may be a single number, which stands for all elements.
    """
    if all(each.size == 1 or (each == each.flat[0]).all() for each in arrays if each.size):
        number = _number([each.flat[0] for each in arrays], kind.dtype, formulas, amounts)
        return None if number is None else spread(number, kind, shape, amounts)
    if None not in kind.shape:
        return _elements(arrays, kind, formulas, amounts)
    return _counter(arrays, kind, shape, formulas, amounts)


def spread(x: Tensor, kind: TensorType, shape: Sequence[Expr], amounts: Amounts) -> Tensor:
    """A single number as all elements of a tensor."""
    if not kind.rank:
        return reshape(x, ())
    if None not in kind.shape:
        return emit("broadcast_in_dim", [reshape(x, ())], kind, {"dims": ()})
    return emit("dynamic_broadcast_in_dim", [reshape(x, ()), amounts.vector(shape)], kind, {"dims": ()})


def _number(values: Sequence[Any], dtype: str, formulas: Formulas, amounts: Amounts) -> Tensor | None:
    """A number that is a formula of sizes, or the reciprocal of one; as a scalar."""
    if all(each == values[0] or (each != each and values[0] != values[0]) for each in values):
        return tensor(np.asarray(values[0]))
    for values_of, made in ((list(values), lambda x: x), ([_reciprocal(each) for each in values], lambda x: 1.0 / x)):
        rounded = [round(float(each.real)) if np.isfinite(each) else 0 for each in values_of]
        formula = formulas.of(rounded)
        if formula is None or not amounts.has(formula):
            continue
        kinds = np.asarray(values[0]).dtype
        with np.errstate(all="ignore"):
            again = [np.asarray(made(kinds.type(each))).astype(kinds) for each in rounded]
        if all(a == b for a, b in zip(again, values, strict=True)):
            return made(convert(amounts.scalar(formula), dtype))
        if not is_inexact(dtype):
            break
    return None


def _reciprocal(value: Any) -> Any:
    return 1.0 / float(value.real) if value else np.inf


def _elements(arrays: Sequence[Array], kind: TensorType, formulas: Formulas, amounts: Amounts) -> Tensor | None:
    """An array of one shape whose elements are whole numbers, each a formula."""
    if kind.size > LONGEST or is_inexact(kind.dtype):
        return None
    rows = [[int(n) for n in np.broadcast_to(each, kind.sizes).reshape(-1)] for each in arrays]
    known = formulas.of_all([*zip(*rows, strict=True)])
    if known is None or not all(map(amounts.has, known)):
        return None
    return reshape(convert(amounts.vector(known), kind.dtype), kind.sizes)


def _counter(arrays: Sequence[Array], kind: TensorType, shape: Sequence[Expr], formulas: Formulas, amounts: Amounts) -> Tensor | None:  # fmt: skip
    """Whole numbers that grow evenly along each dim, such as positions."""
    if is_inexact(kind.dtype) or kind.dtype == "i1" or min(min(each.shape) for each in arrays) < 1:
        return None
    lines = [_line(each) for each in arrays]
    if any(line is None for line in lines):
        return None
    known = formulas.of_all([*zip(*(line for line in lines if line), strict=True)])
    if known is None or not all(map(amounts.has, known)):
        return None
    total = spread(convert(amounts.scalar(known[0]), kind.dtype), kind, shape, amounts)
    for dim, step in enumerate(known[1:]):
        if step.number != 0:
            count = emit("dynamic_iota", [amounts.vector(shape)], kind, {"dim": dim})
            wide = spread(convert(amounts.scalar(step), kind.dtype), kind, shape, amounts)
            total = emit("add", [total, emit("multiply", [count, wide], kind)], kind)
    return total


def _line(array: Array) -> list[int] | None:
    """The first element, and the step along each dim; None where steps differ."""
    first = int(array.flat[0])
    steps = [int(np.take(array, 1, d).flat[0]) - first if size > 1 else 0 for d, size in enumerate(array.shape)]
    grid = np.indices(array.shape, np.int64)
    wanted = first + sum((step * grid[d] for d, step in enumerate(steps)), np.zeros(array.shape, np.int64))
    return [first, *steps] if (array == wanted).all() else None
