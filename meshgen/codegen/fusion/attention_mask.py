"""Which keys a tile of rows attends to, where the mask says so by index: causal, windows, blocks of a sequence.

A mask is `select(condition, scores, fill)`, or `scores + select(condition, 0, fill)` with a large fill. A condition that is a conjunction of
comparisons of indices, `n <= m` and `n > m - 64`, bounds the keys of a row from both sides. Outside of the bounds of all rows of a tile the
scores are `fill`, inside those of each row they are not masked. What is skipped adds exp(fill - maximum) to a row's sum: 0 if the row has a
score well above the fill. The kernel checks that and takes the rest in where it does not hold. Scores to which a fill is added are
taken to be less than half of it; a fill that is added to anything else sets no bounds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Expr, Quotient, Var
from meshgen.codegen.fusion.attention import splat
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.ir.graph import Node, Value, is_float
from meshgen.ops.classes import LAYOUT, LEAVING

_UNDERFLOW = 128.0  # exp(-104) is less than half of the least number of f32
LARGE_FILL = -1e8  # a fill that is added masks from here on: what people write is -1e9 to the least float


class Reader(Protocol):
    """What makes values, and the index of a device in its group over mesh axes."""

    @property
    def producer(self) -> Mapping[Value, Node]: ...
    def coordinate(self, axes: tuple[str, ...]) -> Expr: ...


class Mask(NamedTuple):
    """Bounds of the keys of a row.

    Attributes:
        least, most: of the keys of a row, inclusive, as expressions over rows and programs: each one holds.
        fill: the score outside of the bounds.
        limit: of rows that have a score above it, scores outside count nothing.
        inner: the scores inside; the masked ones where the bounds are not all of the condition.
    """

    least: tuple[Expr, ...]
    most: tuple[Expr, ...]
    fill: float
    limit: float
    inner: Value


def mask_of(reader: Reader, scores: Value, index: Index, n: Var, m: Var) -> Mask | None:
    """The bounds that the mask of the scores at an index sets to the keys `n` of the rows `m`; None if it sets none."""
    found = _parts(reader, scores, index)
    if found is None:
        return None
    condition, place, inner, fill, limit = found
    least, most, is_all = list[Expr](), list[Expr](), True
    for bound in _conjunction(reader, condition, place):
        side = None if bound is None else _bound(bound, n, m)
        if side is None:
            is_all = False
        else:
            (least if side[0] else most).append(side[1])
    if not (least or most):
        return None
    return Mask(tuple(least), tuple(most), fill, limit, inner if is_all else scores)


def _parts(reader: Reader, scores: Value, index: Index) -> tuple[Value, Index, Value, float, float] | None:
    """The condition of a mask and its index, the scores where it holds, the fill, and the limit."""
    node, producer = reader.producer.get(scores), reader.producer.get
    if node is not None and node.op == "select":
        condition, inner, fill = node.operands
        number, place = splat(fill, producer), index if condition.type.rank else ()
        if number is None and (added := _added(reader, fill, inner, index)) is not None:
            return condition, place, inner, added, added / 2
        if number is None or number > 0:
            return None
        return condition, place, inner, number, _well_above(number)
    if node is None or node.op != "add":
        return None
    for inner, bias in (node.operands, node.operands[::-1]):
        source, place = _origin(reader, bias, index)
        maker = producer(source)
        if maker is None or maker.op != "select" or splat(maker.operands[1], producer) != 0:
            continue
        number = splat(maker.operands[2], producer)
        if number is not None and number <= LARGE_FILL:
            return maker.operands[0], place if maker.operands[0].type.rank else (), inner, number, number / 2
    return None


def _origin(reader: Reader, value: Value, index: Index) -> tuple[Value, Index]:
    """Return the value that is read at an index of a value through conversions and index maps, and its index."""
    while (node := reader.producer.get(value)) is not None:
        if node.op != "convert":
            if node.op not in LAYOUT - LEAVING or node.op == "mask_padding":
                break
            index = backward(node, index)
        value = node.operands[0]
    return value, index


def _added(reader: Reader, value: Value, inner: Value, index: Index) -> float | None:
    """Return the large fill that is added to the inner score, or to zeros; None for any other value.

    A fill is low only relative to the number to which it is added, and an unrelated operand may be large.
    """
    node, producer = reader.producer.get(value), reader.producer.get
    if node is None or node.op != "add":
        return None
    for other, fill in (node.operands, node.operands[::-1]):
        number = splat(fill, producer)
        if number is not None and number <= LARGE_FILL:
            is_inner = _origin(reader, other, index) == _origin(reader, inner, index)
            return number if is_inner or _is_zero(reader, other, index) else None
    return None


def _is_zero(reader: Reader, value: Value, index: Index) -> bool:
    """Whether a value is a product with 0, as a score that is multiplied by its mask, or a sum of such products."""
    value, index = _origin(reader, value, index)
    node = reader.producer.get(value)
    if node is not None and node.op == "add":
        return all(_is_zero(reader, operand, index) for operand in node.operands)
    return node is not None and node.op == "multiply" and 0 in [splat(v, reader.producer.get) for v in node.operands]


def _conjunction(reader: Reader, condition: Value, index: Index) -> Iterator[Expr | None]:
    """Expressions that are not negative exactly where the condition holds; None for everything but comparisons of indices."""
    node = reader.producer.get(condition)
    if node is None:
        yield None
    elif node.op == "and":
        for operand in node.operands:
            yield from _conjunction(reader, operand, index)
    elif node.op == "select" and _is_itself(reader, node.operands[1:]):
        yield from _conjunction(reader, node.operands[0], index if node.operands[0].type.rank else ())
    elif node.op in LAYOUT - LEAVING and node.op != "mask_padding":
        yield from _conjunction(reader, node.operands[0], backward(node, index))
    elif node.op == "compare" and (test := _tested(reader, node)) is not None:
        yield from _conjunction(reader, test, index if test.type.rank else ())
    elif node.op == "compare" and not is_float(node.operands[0].type.dtype):
        left, right = (_number(reader, v, index) for v in node.operands)
        if left is None or right is None:
            yield None
        elif not (node.attrs.direction == "NE" and (left - right).is_constant and left != right):
            yield _not_negative(left, right, node.attrs.direction)
    else:
        yield None


def _tested(reader: Reader, compare: Node) -> Value | None:
    """The condition that a comparison of it as a number with 0 is."""
    left = reader.producer.get(compare.operands[0])
    is_test = compare.attrs.direction in ("NE", "GT") and splat(compare.operands[1], reader.producer.get) == 0
    is_number = left is not None and left.op == "convert" and left.operands[0].type.dtype == "i1"
    return left.operands[0] if left is not None and is_test and is_number else None


def _is_itself(reader: Reader, choices: list[Value]) -> bool:
    """Whether a select of these is its condition: true where it holds, else false."""
    return [splat(v, reader.producer.get) for v in choices] == [1.0, 0.0]


def _not_negative(left: Expr, right: Expr, direction: str) -> Expr | None:
    match direction:
        case "GE":
            return left - right
        case "GT":
            return left - right - 1
        case "LE":
            return right - left
        case "LT":
            return right - left - 1
        case _:
            return None


def _number(reader: Reader, value: Value, index: Index) -> Expr | None:
    """An integer as an expression over the tile; None if it is data."""
    node = reader.producer.get(value)
    if node is None:
        return None
    match node.op:
        case "iota":
            return index[node.attrs.dim]
        case "constant":
            array = np.asarray(node.attrs.value)
            return ex.constant(int(array.flat[0])) if (array == array.flat[0]).all() else None
        case "process_index":
            return reader.coordinate(tuple(node.attrs.axes))
        case "convert" if not is_float(node.operands[0].type.dtype):
            return _number(reader, node.operands[0], index)
        case "add" | "subtract" | "multiply":
            left, right = (_number(reader, v, index if v.type.rank else ()) for v in node.operands)
            if left is None or right is None:
                return None
            if node.op == "multiply":
                return left * right.const if right.is_constant else right * left.const if left.is_constant else None
            return left + right if node.op == "add" else left - right
        case op if op in LAYOUT - LEAVING and op != "mask_padding":
            return _number(reader, node.operands[0], backward(node, index))
        case _:
            return None


def _bound(expr: Expr, n: Var, m: Var) -> tuple[bool, Expr] | None:
    """Of `expr >= 0`: whether it is a lower bound of n, and the bound; None if it is not linear in n, or does not grow or fall with m."""
    factor = dict(expr.terms).get(n, 0)
    rest = Expr(tuple(term for term in expr.terms if term[0] != n), expr.const)
    if abs(factor) != 1 or n in ex.variables(rest) or any(not _is_monotonic(atom, m) for atom, _ in rest.terms):
        return None
    return (True, rest * -1) if factor == 1 else (False, rest)


def _is_monotonic(atom: Var | Quotient | ex.Remainder, m: Var) -> bool:
    match atom:
        case Var():
            return True
        case Quotient(of, _):
            return m not in ex.variables(of) or all(
                inner == m and f > 0 for inner, f in of.terms if isinstance(inner, Var)
            )
        case _:
            return m not in ex.variables(atom.of)


def _well_above(fill: float) -> float:
    """A score from which on the exponential of the fill relative to it is 0 in f32; of large fills, what differs from them."""
    return fill if fill == -np.inf else fill + max(_UNDERFLOW, abs(fill) * 2.0**-20)
