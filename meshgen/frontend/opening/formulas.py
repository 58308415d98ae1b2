"""Formulas of sizes: found from numbers at several points, and read from the texts in which exporters write them."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import combinations, combinations_with_replacement
from typing import Any

import numpy as np

from meshgen.ir.symbols import Expr

Point = Mapping[str, int]  # a number for each symbol
COUNT = 5  # points at which a program is read: a formula has up to four coefficients, so at least one point is left to check it
_DEGREE, _TERMS = 3, 3  # of products of symbols, and how many of them a formula has beside a number
_FIRST = (
    67  # sizes are taken from here on where the range allows: apart from ranks, and from most lists of sizes in a model
)


def points_of(ranges: Mapping[str, tuple[int, int | None]]) -> list[Point] | None:
    """Numbers to read a program at; None where a range has too few. Sizes 0 and 1 are left out: programs may treat them differently.

    Primes, other ones for each symbol, so that no product or sum is another one by chance; every second symbol falls while others grow.
    """
    taken: set[int] = set()
    columns: dict[str, list[int]] = {}
    for number, (name, (low, high)) in enumerate(ranges.items()):
        column = _numbers(max(low, 2), high, taken)
        if len(column) < COUNT:
            return None
        taken |= {*column}
        columns[name] = column[::-1] if number % 2 else column
    return [{name: column[at] for name, column in columns.items()} for at in range(COUNT)]


def _numbers(low: int, high: int | None, taken: set[int]) -> list[int]:
    """Numbers of a range: primes from the usual first one on, else any primes, else any numbers."""
    if high is None or high >= 8 * _FIRST:
        return _some(n for n in range(max(low, _FIRST), 10 * max(low, _FIRST)) if _is_prime(n) and n not in taken)
    primes = _some(n for n in range(high, low - 1, -1) if _is_prime(n) and n not in taken)
    return sorted(primes) if len(primes) == COUNT else sorted(_some(range(high, low - 1, -1)))


def _some(numbers: Any) -> list[int]:
    return [n for n, _ in zip(numbers, range(COUNT), strict=False)]


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, int(n**0.5) + 1))


def fitted(values: Sequence[int], points: Sequence[Point]) -> Expr | None:
    """The formula with the fewest terms, whole coefficients and these values at the points; None where there is none."""
    if len({*values}) == 1:
        return Expr.of(int(values[0]))
    wanted = np.array(values, np.float64)
    for chosen in _supports([*points[0]]):
        rows = [[1, *(_product(factors, point) for factors in chosen)] for point in points]
        numbers = [round(float(each)) for each in np.linalg.lstsq(np.array(rows, np.float64), wanted, rcond=None)[0]]
        if all(sum(map(operator.mul, numbers, row)) == value for row, value in zip(rows, values, strict=True)):
            parts = [Expr(((factors, 1),)) * Expr.of(n) for factors, n in zip(chosen, numbers[1:], strict=True)]
            return reduce(operator.add, parts, Expr.of(numbers[0]))
    return None


def _supports(names: Sequence[str]) -> Iterator[tuple[tuple[str, ...], ...]]:
    """The products of which formulas are tried, the shortest formulas first; of three terms only sums of symbols."""
    products = [tuple(sorted(each)) for degree in range(1, _DEGREE + 1) for each in combinations_with_replacement(names, degree)]  # fmt: skip
    for terms in range(1, _TERMS + 1):
        yield from combinations(products if terms < _TERMS else [(name,) for name in names], terms)


def _product(factors: Sequence[str], point: Point) -> int:
    return reduce(operator.mul, (point[name] for name in factors), 1)


# Texts ---------------------------------------------------------------------------------------------------------------

_OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt,
    ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
}  # fmt: skip
# Calls in what sympy writes: `Add(Mul(Integer(2), Symbol('s0', integer=True)), Integer(-1))`.
_CALLS: dict[str, Callable[..., Any]] = {
    "Integer": int, "Add": lambda *xs: reduce(operator.add, xs), "Mul": lambda *xs: reduce(operator.mul, xs),
    "Pow": operator.pow, "FloorDiv": operator.floordiv, "Mod": operator.mod, "PythonMod": operator.mod, "Max": max, "Min": min,
}  # fmt: skip


class UnknownFormulaError(ValueError):
    """A text that is not a formula of sizes, or one of a size that is not known."""


def computed(text: str, leaf: Callable[[str], Any]) -> Any:
    """The value of a formula. `leaf` gives that of a symbol, or of another text that stands for a size, or raises KeyError.

    Raises UnknownFormulaError.
    """
    try:
        return _value(ast.parse(text.strip(), mode="eval").body, leaf)
    except (ArithmeticError, KeyError, SyntaxError, TypeError, ValueError, RecursionError) as error:
        raise UnknownFormulaError(text) from error


def _value(node: ast.expr, leaf: Callable[[str], Any]) -> Any:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.UnaryOp):
        return _OPERATORS[type(node.op)](_value(node.operand, leaf))
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)](_value(node.left, leaf), _value(node.right, leaf))
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        return _OPERATORS[type(node.ops[0])](_value(node.left, leaf), _value(node.comparators[0], leaf))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "Symbol":
            return leaf(ast.literal_eval(node.args[0]))
        if node.func.id in _CALLS:
            return _CALLS[node.func.id](*(_value(each, leaf) for each in node.args))
    return leaf(ast.unparse(node))


def symbols_in(text: str) -> list[str]:
    """The symbols of a formula, in order. Raises UnknownFormulaError."""
    found: dict[str, None] = {}

    def leaf(name: str) -> int:
        if not name.isidentifier():
            raise KeyError(name)
        found[name] = None
        return 2

    computed(text, leaf)
    return [*found]


def solved(text: str, symbol: str, size: int) -> int | None:
    """What the only symbol of a formula `a*s + c` stands for where it has this value; None where that is not a whole number."""
    at = lambda number: computed(text, {symbol: number}.__getitem__)  # noqa: E731
    slope = at(3) - at(2)
    number, rest = divmod(size - at(2), slope) if slope else (0, 1)
    return None if rest or at(number + 2) != size else number + 2
