"""Formulas of sizes, found from their numbers at several points."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from itertools import combinations, combinations_with_replacement
from math import prod
from typing import TypeAlias

import numpy as np

from meshgen.frontend.opening.points import LARGEST_DIVISOR, Point
from meshgen.ir.symbols import Expr

_DEGREE, _TERMS = 3, 3  # of products, and how many of them a formula has beside a number
_FEW, _MANY = (
    4,
    12,
)  # of so many symbols and sizes pairs of all products are tried, of more those of the lower degrees; and the most
_PERIODS = 3  # of quotients that the numbers go through: others may have the same values over fewer
Numbers: TypeAlias = tuple[int, ...]
Term: TypeAlias = tuple[Expr, Numbers]  # and its values at the points


class Formulas:
    """The formulas of numbers at these points.

    They are sums of products with whole coefficients of the symbols. Where `rounds`, sizes that have been found are factors as symbols
    are, and a size may be the quotient of such products, rounded down, by a number of which the points have all remainders.
    """

    def __init__(self, points: Sequence[Point], *, rounds: bool = False) -> None:
        self.points, self._rounds = points, rounds
        self._bases = [(Expr.symbol(name), tuple(point[name] for point in points)) for name in points[0]]
        self._known: dict[Numbers, Expr | None] = {}

    def of(self, numbers: Sequence[int]) -> Expr | None:
        """The formula with the fewest terms that has these values at the points; None where there is none."""
        values = tuple(map(int, numbers))
        if values not in self._known:
            self._known[values] = Expr.of(values[0]) if len({*values}) == 1 else self._found(values)
        return self._known[values]

    def of_all(self, rows: Sequence[Sequence[int]]) -> list[Expr] | None:
        """The formulas of several sizes; None where one has none."""
        found: list[Expr] = []
        for numbers in rows:
            if (formula := self.of(numbers)) is None:
                return None
            found.append(formula)
        return found

    def _found(self, values: Numbers) -> Expr | None:
        products = [*self._products(_DEGREE)]
        found = _fitted(values, combinations(products, 1))
        if self._rounds:
            found = found or self._rounded(values)
            if found and len(self._bases) < _MANY and not any(found == each for each, _ in products):
                self._bases.append((found, values))
        lower = products if len(self._bases) <= _FEW else [*self._products(_DEGREE - 1)]
        return found or _fitted(values, combinations(lower, 2)) or _fitted(values, combinations(self._bases, _TERMS))

    def _products(self, degree: int) -> Iterator[Term]:
        for count in range(1, degree + 1):
            for chosen in combinations_with_replacement(self._bases, count):
                yield reduce(operator.mul, (each for each, _ in chosen)), tuple(map(prod, zip(*(n for _, n in chosen), strict=True)))  # fmt: skip

    def _rounded(self, values: Numbers) -> Expr | None:
        """The quotient of a product of up to two factors, or what it has with that product in a sum."""
        quotients = [(term, quotient) for term in self._products(_DEGREE - 1) for quotient in _quotients(*term)]
        alone = _fitted(values, ((quotient,) for _, quotient in quotients))
        return alone or _fitted(values, quotients)


def _quotients(top: Expr, numbers: Numbers) -> Iterator[Term]:
    """What a product and a little more gives, divided by the numbers of which it has all remainders, and rounded down."""
    for divisor in range(2, LARGEST_DIVISOR + 1):
        if len({n % divisor for n in numbers}) == divisor and max(numbers) - min(numbers) >= _PERIODS * divisor:
            for more in range(divisor):
                yield (top + Expr.of(more)).divided(Expr.of(divisor)), tuple((n + more) // divisor for n in numbers)


def _fitted(values: Numbers, supports: Iterable[tuple[Term, ...]]) -> Expr | None:  # fmt: skip
    """A number and whole multiples of the first of these terms that make the values."""
    for terms in supports:
        columns = [(1,) * len(values), *(numbers for _, numbers in terms)]
        scales = [max(map(abs, column)) or 1 for column in columns]
        table = np.array([[n / scale for n in column] for column, scale in zip(columns, scales, strict=True)])
        solved = np.linalg.lstsq(table.T, np.array(values, np.float64), rcond=None)[0]
        counts = [round(float(each) / scale) for each, scale in zip(solved, scales, strict=True)]
        if all(sum(map(operator.mul, counts, row)) == value for row, value in zip(zip(*columns, strict=True), values, strict=True)):  # fmt: skip
            parts = [each * Expr.of(n) for (each, _), n in zip(terms, counts[1:], strict=True)]
            return reduce(operator.add, parts, Expr.of(counts[0]))
    return None
