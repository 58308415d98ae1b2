"""Bounds of the keys that a row attends to, derived from masks that compare positions (causal, windowed, block-local).

    %m = convert (compare GE, %row, %key)    %r = %score * 0.5 - 1e9 * (1 - %m)
    bound: keys <= row                       inside of it: %score * 0.5

The function of the scores is specialized twice: once as if a comparison of positions holds, once as if it fails. The
comparison is a mask if one version is a constant that is at most 0, or adds a large negative constant. That constant
is the `fill`. A mask bounds the keys of each row. Outside the bounds of all rows of a tile, each score is the fill.
Inside the bounds of each row, the comparisons hold.

A skipped key would add exp(fill - maximum) to the sum of its row. This is 0 if the row has a score well above the
fill. The kernel checks that, and processes the skipped keys if a row has no such score. Scores to which a fill is
added are assumed to be below half of it in magnitude. A fill that is added to an unrelated operand sets no bounds.
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

# Natural logarithm of a number that f32 rounds to 0: exp(-104) is less than half of the smallest positive f32.
_UNDERFLOW = 128.0
# An added constant at or below this number is a mask. Chosen: models add -1e9 or lower, down to the lowest finite
# float.
LARGE_FILL = -1e8


class Mask(NamedTuple):
    """Bounds of the keys that a row attends to, as inclusive expressions over rows and programs.

    Attributes:
        least: lower bounds; a key must satisfy all of them.
        most: upper bounds; a key must satisfy all of them.
        fill: the score outside the bounds.
        limit: if some score of a row is above this limit, scores outside the bounds contribute 0 to the row.
        tests: expressions that are nonnegative inside the bounds.
    """

    least: tuple[Expr, ...]
    most: tuple[Expr, ...]
    fill: float
    limit: float
    tests: frozenset[Expr]


class _Bound(NamedTuple):
    """One bound that a mask sets on the keys of a row.

    Attributes:
        test: an expression that is nonnegative inside the bound.
        is_least: whether the bound is a lower bound.
        bound: the first key for a lower bound, the last key for an upper bound.
        fill: the fill and the limit, as in `Mask`.
        inside: the function of the scores, specialized to keys inside the bound.
    """

    test: Expr
    is_least: bool
    bound: Expr
    fill: tuple[float, float]
    inside: Graph


@dataclass(frozen=True)
class Positions:
    """Evaluates integers in the functions of an attention op as expressions over the loops of a kernel.

    Attributes:
        node: the attention op.
        table: the index of each factor.
        producer: returns the node that produces an operand.
        coordinate: returns the index of the device in its group over the given mesh axes.
    """

    node: Node
    table: Mapping[str, Expr]
    producer: Callable[[Value], Node | None]
    coordinate: Callable[[tuple[str, ...]], Expr]

    def mask(self, region: Graph, n: Var, m: Var) -> Mask | None:
        """Return the bounds on the keys `n` of the rows `m` that the masks in the score function `region` set.

        Returns None if the function sets no bounds.
        """
        bounds, inside = list[_Bound](), region
        while (bound := self._first(inside, n, m)) is not None:
            bounds.append(bound)
            inside = bound.inside
        if not bounds:
            return None
        least, most = (
            tuple(bound_of_keys.bound for bound_of_keys in bounds if bound_of_keys.is_least == side)
            for side in (True, False)
        )
        fill, limit = (max(values) for values in zip(*(bound_of_keys.fill for bound_of_keys in bounds), strict=True))
        return Mask(least, most, fill, limit, frozenset(bound_of_keys.test for bound_of_keys in bounds))

    def _first(self, region: Graph, n: Var, m: Var) -> _Bound | None:
        """Return the first bound that a comparison of positions in `region` sets, or None if no comparison is a mask."""
        for test in dict.fromkeys(self._tests(region).values()):
            for holding in (test, _opposite(test)):
                if (side := _bound(holding, n, m)) is None:
                    continue
                inside, outside = self.where(region, {holding}), self.where(region, {_opposite(holding)})
                if (fill := _fill(inside, outside)) is not None:
                    return _Bound(holding, *side, fill, inside)
        return None

    def where(self, region: Graph, holding: Collection[Expr]) -> Graph:
        """Return the function `region` specialized to the outcome of comparisons.

        Args:
            holding: expressions that are nonnegative. A comparison holds if its expression (`_tests`) is in `holding`,
                and fails if the opposite expression is.
        """
        tests = self._tests(region).items()
        outcomes = {v: test in holding for v, test in tests if test in holding or _opposite(test) in holding}
        return specialized(region, outcomes) if outcomes else region

    def _tests(self, region: Graph) -> dict[Value, Expr]:
        """Map each comparison of positions in `region` to an expression that is nonnegative exactly where the
        comparison holds.
        """
        exprs = self._integer_exprs(region)
        tests = {n.result: _not_negative(n, exprs) for n in region.nodes if n.op == "compare"}
        return {value: test for value, test in tests.items() if test is not None}

    def _integer_exprs(self, region: Graph) -> dict[Value, Expr]:
        """Map each integer in `region` that depends only on positions and device coordinates to its expression."""
        node, exprs = self.node, dict[Value, Expr]()
        names = node.attrs.positions
        count = len(region.inputs) - len(names)
        exprs.update(zip(region.inputs[count:], (self.table[name] for name in names), strict=True))
        extra_operands = node.operands[fixed(node.op) :]
        for value, operand in zip(region.inputs[count - len(extra_operands) : count], extra_operands, strict=True):
            if not operand.type.rank and (expr := self._scalar(operand)) is not None:
                exprs[value] = expr
        for inner in region.nodes:
            if (expr := self._integer_expr(inner, exprs.get)) is not None:
                exprs[inner.result] = expr
        return exprs

    def _scalar(self, value: Value) -> Expr | None:
        """Return the expression of a 0-d operand of the attention op, or None if it depends on values other than device
        coordinates and constants.
        """
        definition = self.producer(value)
        return None if definition is None else self._integer_expr(definition, self._scalar)

    def _integer_expr(self, node: Node, number_of: Callable[[Value], Expr | None]) -> Expr | None:
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
    """Return a map from each factor of an attention op to a variable over the factor's size."""
    return {name: ex.variable(name, size) for name, size in Factors.of(node).sizes.items()}


def _fill(inside: Graph, outside: Graph) -> tuple[float, float] | None:
    """Return the fill and the limit of a mask, or None if the comparison is not a mask.

    An added fill is a mask only if the other addend is the score itself or 0.

    Args:
        inside: the function of the scores, specialized as if the comparison holds.
        outside: the function of the scores, specialized as if the comparison fails.
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
    """Whether `value` in graph `first` and `other` in graph `second` compute the same expression of the same arguments."""
    table: dict[Any, int] = {}

    def value_numbers(region: Graph) -> dict[Value, int]:
        numbers = {v: table.setdefault(v, len(table)) for v in region.inputs}
        for node in region.nodes:
            operands = tuple(numbers[v] for v in node.operands)
            attrs = np.asarray(node.attrs.value).tobytes() if is_constant(node) else node.attrs
            numbers[node.result] = table.setdefault((node.op, attrs, node.result.type, operands), len(table))
        return numbers

    return value_numbers(first)[value] == value_numbers(second)[other]


def _is_zero(region: Graph, value: Value) -> bool:
    """Whether a value is a multiplication by 0 (such as a score multiplied by its mask), or a sum of such values."""
    producer = region.index.producers

    def terms(value: Value) -> Sequence[Value]:
        node = producer.get(value)
        return node.operands if node is not None and node.op == "add" else ()

    term_nodes = [producer.get(addend) for addend in reachable([value], terms) if not terms(addend)]
    factors = [node.operands for node in term_nodes if node is not None and node.op == "multiply"]
    return len(factors) == len(term_nodes) and all(
        0 in [fixed_number(producer.get(v)) for v in operands] for operands in factors
    )


def fixed_number(node: Node | None) -> float | None:
    """Return the value of a scalar constant, or None for any other node."""
    return float(np.asarray(node.attrs.value).astype(np.float64)) if is_constant(node) else None


def _opposite(test: Expr) -> Expr:
    """Return an expression that is nonnegative exactly where the integer `test` is negative."""
    return test * -1 - 1


def _not_negative(compare: Node, numbers: Mapping[Value, Expr]) -> Expr | None:
    """Return an expression that is nonnegative exactly where the comparison of positions `compare` holds.

    Returns None for other comparisons.
    """
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
    """Return the bound on `n` that `expr >= 0` sets, as (whether it is a lower bound, the least or greatest `n`).

    Returns:
        None if the factor of `n` in `expr` is not 1 or -1, or if the bound is not monotonic in `m`.
    """
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
    """Return a score `s` for which exp(fill - s) is 0 in f32.

    The distance from `fill` grows with its magnitude, so that `s` and `fill` do not round to the same number.
    """
    return fill if fill == -np.inf else fill + max(_UNDERFLOW, abs(fill) * 2.0**-20)
