"""Find formulas in the symbols of a program from the values of the formulas at several points."""

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

# Largest number of factors in a product, and of products in a sum. Chosen: larger ones need more points than `COUNT`.
_DEGREE, _TERMS = 3, 3
# `_FEW`: with up to this many symbols and earlier formulas, sums of any two products are tried; with more, only sums
# of products with one factor less. `_MANY`: the largest number of symbols and earlier formulas that become factors.
# Both are chosen to bound the search.
_FEW, _MANY = 4, 12
# The points must cover this many periods of a quotient. Chosen: with fewer, other formulas have the same values.
_PERIODS = 3
Numbers: TypeAlias = tuple[int, ...]
Term: TypeAlias = tuple[Expr, Numbers]  # A product, and its values at the points.


class Formulas:
    """Finds the formula of a number from its values at the points `points`, which assign a size to each symbol.

    A formula is a sum of products of the symbols, with integer coefficients. With `rounds`, a formula may also contain
    a quotient, rounded down, and the formulas that earlier calls returned. The divisor of a quotient is a constant, and
    the points must cover all remainders by it.
    """

    def __init__(self, points: Sequence[Point], *, rounds: bool = False) -> None:
        self.points, self._rounds = points, rounds
        self._bases = [(Expr.symbol(name), tuple(point[name] for point in points)) for name in points[0]]
        self._known: dict[Numbers, Expr | None] = {}

    def of(self, sizes: Sequence[int]) -> Expr | None:
        """Return the formula with the fewest terms whose value at point i is `sizes[i]`, or None if no formula fits."""
        values = tuple(map(int, sizes))
        if values not in self._known:
            self._known[values] = Expr.of(values[0]) if len({*values}) == 1 else self._search(values)
        return self._known[values]

    def of_all(self, rows: Sequence[Sequence[int]]) -> list[Expr] | None:
        """Return a formula for each row of `rows`, as `of` does, or None if a row has no formula."""
        formulas: list[Expr] = []
        for numbers in rows:
            if (formula := self.of(numbers)) is None:
                return None
            formulas.append(formula)
        return formulas

    def _search(self, values: Numbers) -> Expr | None:
        products = [*self._products(_DEGREE)]
        formula = _fitted(values, combinations(products, 1))
        if self._rounds:
            formula = formula or self._rounded(values)
            if formula and len(self._bases) < _MANY and not any(formula == product for product, _ in products):
                self._bases.append((formula, values))
        pair_terms = products if len(self._bases) <= _FEW else [*self._products(_DEGREE - 1)]
        return (
            formula
            or _fitted(values, combinations(pair_terms, 2))
            or _fitted(values, combinations(self._bases, _TERMS))
        )

    def _products(self, degree: int) -> Iterator[Term]:
        for count in range(1, degree + 1):
            for factors in combinations_with_replacement(self._bases, count):
                yield reduce(operator.mul, (expression for expression, _ in factors)), tuple(map(prod, zip(*(n for _, n in factors), strict=True)))  # fmt: skip

    def _rounded(self, values: Numbers) -> Expr | None:
        """Return a formula with a quotient, or with a quotient and a multiple of its dividend, or None if neither fits.

        The dividend is a product of at most two factors.
        """
        quotients = [(term, quotient) for term in self._products(_DEGREE - 1) for quotient in _quotients(*term)]
        alone = _fitted(values, ((quotient,) for _, quotient in quotients))
        return alone or _fitted(values, quotients)


def _quotients(top: Expr, numbers: Numbers) -> Iterator[Term]:
    """Yield the quotients `(top + i) // divisor` as terms; `numbers` are the values of `top` at the points.

    Only divisors all of whose remainders occur in `numbers` are used.
    """
    for divisor in range(2, LARGEST_DIVISOR + 1):
        if len({n % divisor for n in numbers}) == divisor and max(numbers) - min(numbers) >= _PERIODS * divisor:
            for addend in range(divisor):
                yield (top + Expr.of(addend)).divided(Expr.of(divisor)), tuple((n + addend) // divisor for n in numbers)


def _fitted(values: Numbers, supports: Iterable[tuple[Term, ...]]) -> Expr | None:  # fmt: skip
    """Return the first formula that equals `values` at all points, or None.

    Each entry of `supports` is a set of terms; a candidate formula is a constant plus an integer combination of its
    terms.
    """
    for terms in supports:
        columns = [(1,) * len(values), *(numbers for _, numbers in terms)]
        scales = [max(map(abs, column)) or 1 for column in columns]
        table = np.array([[n / scale for n in column] for column, scale in zip(columns, scales, strict=True)])
        solved = np.linalg.lstsq(table.T, np.array(values, np.float64), rcond=None)[0]
        coefficients = [round(float(term) / scale) for term, scale in zip(solved, scales, strict=True)]
        if all(sum(map(operator.mul, coefficients, row)) == value for row, value in zip(zip(*columns, strict=True), values, strict=True)):  # fmt: skip
            scaled_terms = [term * Expr.of(n) for (term, _), n in zip(terms, coefficients[1:], strict=True)]
            return reduce(operator.add, scaled_terms, Expr.of(coefficients[0]))
    return None
