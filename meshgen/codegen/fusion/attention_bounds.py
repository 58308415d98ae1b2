"""Which keys a tile of rows attends to, where the function of the scores says so by position: causal, windows, blocks of a sequence.

    %m = convert (compare GE, %row, %key)    %r = %score * 0.5 - 1e9 * (1 - %m)          keys <= row, and inside of that %score * 0.5

The function is specialized to a comparison of positions that holds, and to one that does not. Where it is a negative number in one of both, or has a
large negative number added, `fill`, the comparison is a mask, and bounds the keys of a row. Outside of the bounds of all rows of a tile the
scores are `fill`; inside those of each row the comparisons hold. What is skipped adds exp(fill - maximum) to a row's sum: 0 if the row has a
score well above the fill. The kernel checks that and takes the rest in where it does not hold. Scores to which a fill is added are taken to be less than
half of it; a fill that is added to anything else sets no bounds.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from meshgen.codegen import expr as ex
from meshgen.codegen.expr import Expr, Quotient, Var
from meshgen.codegen.fusion.specialize import specialized
from meshgen.ir.graph import Graph, Node, Value, is_float
from meshgen.ir.predicates import is_constant
from meshgen.ir.walks import reachable
from meshgen.ops.factors import Factors, fixed

_UNDERFLOW = 128.0  # exp(-104) is less than half of the least number of f32
LARGE_FILL = -1e8  # a fill that is added masks from here on: what people write is -1e9 to the least float


class Mask(NamedTuple):
    """Bounds of the keys of a row.

    Attributes:
        least, most: of the keys of a row, inclusive, as expressions over rows and programs: each one holds.
        fill: the score outside of the bounds.
        limit: of rows that have a score above it, scores outside count nothing.
        tests: what is not negative inside of the bounds.
    """

    least: tuple[Expr, ...]
    most: tuple[Expr, ...]
    fill: float
    limit: float
    tests: frozenset[Expr]


class _Bound(NamedTuple):
    """One bound of the keys of a row, what is not negative inside of it, the fill and the limit, and the function inside."""

    test: Expr
    is_least: bool
    bound: Expr
    fill: tuple[float, float]
    inside: Graph


@dataclass(frozen=True)
class Positions:
    """The integers of an attention's functions as expressions over a kernel's loops.

    Attributes:
        node: the attention.
        table: the index of each factor.
        producer: makes the node's operands.
        coordinate: the index of the device in its group over mesh axes.
    """

    node: Node
    table: Mapping[str, Expr]
    producer: Callable[[Value], Node | None]
    coordinate: Callable[[tuple[str, ...]], Expr]

    def mask(self, region: Graph, n: Var, m: Var) -> Mask | None:
        """Return the bounds that the function of the scores sets to the keys `n` of the rows `m`; None if it sets none."""
        found, inside = list[_Bound](), region
        while (bound := self._first(inside, n, m)) is not None:
            found.append(bound)
            inside = bound.inside
        if not found:
            return None
        least, most = (tuple(each.bound for each in found if each.is_least == side) for side in (True, False))
        fill, limit = (max(numbers) for numbers in zip(*(each.fill for each in found), strict=True))
        return Mask(least, most, fill, limit, frozenset(each.test for each in found))

    def _first(self, region: Graph, n: Var, m: Var) -> _Bound | None:
        """The first mask by position of a function."""
        for test in dict.fromkeys(self._tests(region).values()):
            for holding in (test, _opposite(test)):
                if (side := _bound(holding, n, m)) is None:
                    continue
                inside, outside = self.where(region, {holding}), self.where(region, {_opposite(holding)})
                if (fill := _fill(inside, outside)) is not None:
                    return _Bound(holding, *side, fill, inside)
        return None

    def where(self, region: Graph, holding: Collection[Expr]) -> Graph:
        """Return a function of the attention where some numbers, of those that it compares with 0, are not negative."""
        tests = self._tests(region).items()
        known = {v: test in holding for v, test in tests if test in holding or _opposite(test) in holding}
        return specialized(region, known) if known else region

    def _tests(self, region: Graph) -> dict[Value, Expr]:
        """The comparisons of positions in a function, and what is not negative where they hold."""
        numbers = self._numbers(region)
        found = {n.result: _not_negative(n, numbers) for n in region.nodes if n.op == "compare"}
        return {value: test for value, test in found.items() if test is not None}

    def _numbers(self, region: Graph) -> dict[Value, Expr]:
        """The integers of a function that depend on positions and devices only."""
        node, found = self.node, dict[Value, Expr]()
        names = node.attrs.positions
        count = len(region.inputs) - len(names)
        found.update(zip(region.inputs[count:], (self.table[name] for name in names), strict=True))
        given = node.operands[fixed(node.op) :]
        for value, operand in zip(region.inputs[count - len(given) : count], given, strict=True):
            if not operand.type.rank and (number := self._scalar(operand)) is not None:
                found[value] = number
        for inner in region.nodes:
            if (number := self._number(inner, found.get)) is not None:
                found[inner.result] = number
        return found

    def _scalar(self, value: Value) -> Expr | None:
        """A 0-d operand of the node."""
        maker = self.producer(value)
        return None if maker is None else self._number(maker, self._scalar)

    def _number(self, node: Node, number_of: Callable[[Value], Expr | None]) -> Expr | None:
        if len(node.results) != 1 or node.result.type.rank or is_float(node.result.type.dtype):
            return None
        if is_constant(node):
            return ex.constant(int(np.asarray(node.attrs.value)))
        if node.op == "process_index":
            return self.coordinate(tuple(node.attrs.axes))
        operands = [number_of(value) for value in node.operands]
        match node.op, operands:
            case "convert", [Expr() as number] if node.operands[0].type.dtype != "i1":
                return number
            case "add", [Expr() as left, Expr() as right]:
                return left + right
            case "subtract", [Expr() as left, Expr() as right]:
                return left - right
            case "multiply", [Expr() as left, Expr() as right] if left.is_constant or right.is_constant:
                return left * right.const if right.is_constant else right * left.const
            case _:
                return None


def table_of(node: Node) -> dict[str, Expr]:
    """A variable for each factor of a node."""
    return {name: ex.variable(name, size) for name, size in Factors.of(node).sizes.items()}


def _fill(inside: Graph, outside: Graph) -> tuple[float, float] | None:
    """The number that masked scores are, or have added, and the limit of a mask; None if there is none.

    A fill is low only relative to the number to which it is added, and an unrelated operand may be large.

    Args:
        inside, outside: the function of the scores where a comparison holds, and where it does not.
    """
    node = outside.index.producers.get(outside.outputs[0])
    if (number := fixed_number(node)) is not None:
        return (number, _well_above(number)) if number <= 0 else None
    for other, fill in (node.operands, node.operands[::-1]) if node is not None and node.op == "add" else ():
        number = fixed_number(outside.index.producers.get(fill))
        if number is not None and number <= LARGE_FILL:
            is_inner = _are_same(outside, other, inside, inside.outputs[0])
            return (number, number / 2) if is_inner or _is_zero(outside, other) else None
    return None


def _are_same(first: Graph, value: Value, second: Graph, other: Value) -> bool:
    """Whether values of two functions of the same arguments are computed alike."""
    table: dict[Any, int] = {}

    def numbered(region: Graph) -> dict[Value, int]:
        numbers = {v: table.setdefault(v, len(table)) for v in region.inputs}
        for node in region.nodes:
            operands = tuple(numbers[v] for v in node.operands)
            attrs = np.asarray(node.attrs.value).tobytes() if is_constant(node) else node.attrs
            numbers[node.result] = table.setdefault((node.op, attrs, node.result.type, operands), len(table))
        return numbers

    return numbered(first)[value] == numbered(second)[other]


def _is_zero(region: Graph, value: Value) -> bool:
    """Whether a value is a product with 0, as a score that is multiplied by its mask, or a sum of such products."""
    producer = region.index.producers

    def terms(value: Value) -> Sequence[Value]:
        node = producer.get(value)
        return node.operands if node is not None and node.op == "add" else ()

    makers = [producer.get(each) for each in reachable([value], terms) if not terms(each)]
    products = [node.operands for node in makers if node is not None and node.op == "multiply"]
    return len(products) == len(makers) and all(
        0 in [fixed_number(producer.get(v)) for v in operands] for operands in products
    )


def fixed_number(node: Node | None) -> float | None:
    return float(np.asarray(node.attrs.value).astype(np.float64)) if is_constant(node) else None


def _opposite(test: Expr) -> Expr:
    """What is not negative where a number is."""
    return test * -1 - 1


def _not_negative(compare: Node, numbers: Mapping[Value, Expr]) -> Expr | None:
    """Return an expression that is nonnegative exactly where a comparison of positions holds; None for other comparisons."""
    left, right = (numbers.get(value) for value in compare.operands)
    if left is None or right is None:
        return None
    match compare.attrs.direction:
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
