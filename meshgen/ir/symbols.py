"""Sizes that remember how they were made: an int that is known now, and the expression that gives it for other sizes.

A tensor dim that the program leaves open gets a name; what is computed from it (sums, products, quotients) carries the
expression along, so that passes work on numbers and an analysis can still say `2*x_0 + 8`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

Factors: TypeAlias = "tuple[Atom, ...]"


@dataclass(frozen=True)
class Floor:
    """The quotient of two expressions, rounded down."""

    top: Expr
    bottom: Expr

    def at(self, sizes: Mapping[str, int]) -> int:
        return self.top.at(sizes) // self.bottom.at(sizes)

    def __str__(self) -> str:
        return f"floor(({self.top})/({self.bottom}))"


Atom: TypeAlias = "str | Floor"


@dataclass(frozen=True)
class Expr:
    """A polynomial in names and rounded quotients: coefficients of products, in the order of their text."""

    terms: tuple[tuple[Factors, int], ...]

    @staticmethod
    def of(size: int | Expr) -> Expr:
        """The expression of a size; of a plain number the number."""
        if isinstance(size, Expr):
            return size
        return size.expr if isinstance(size, Dim) else _sum({(): int(size)})

    @staticmethod
    def symbol(name: str) -> Expr:
        return Expr((((name,), 1),))

    @property
    def number(self) -> int | None:
        """The number, where no name occurs."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def at(self, sizes: Mapping[str, int]) -> int:
        """The value for these sizes by name. Raises KeyError for a name that has none."""
        return sum(
            count * math.prod(sizes[f] if isinstance(f, str) else f.at(sizes) for f in factors)
            for factors, count in self.terms
        )

    def __add__(self, other: Expr) -> Expr:
        return _sum({}, *self.terms, *other.terms)

    def __neg__(self) -> Expr:
        return Expr(tuple((factors, -count) for factors, count in self.terms))

    def __mul__(self, other: Expr) -> Expr:
        products = ((tuple(sorted((*f, *g), key=str)), a * b) for f, a in self.terms for g, b in other.terms)
        return _sum({}, *products)

    def divided(self, other: Expr) -> Expr:
        """The quotient, rounded down; plain where it is exact."""
        if len(other.terms) == 1:
            ((below, count),) = other.terms
            parts = [_quotient(factors, number, below, count) for factors, number in self.terms]
            if all(part is not None for part in parts):
                return _sum({}, *(part for part in parts if part is not None))
        return Expr((((Floor(self, other),), 1),))

    def __str__(self) -> str:
        words: list[str] = []
        for factors, count in self.terms:
            names = "*".join(map(str, factors))
            text = names if names and abs(count) == 1 else "*".join(filter(None, (str(abs(count)), names)))
            words.append(f"{'-' if count < 0 else '+'} {text}")
        text = " ".join(words) or "0"
        return text.removeprefix("+ ") if not text.startswith("-") else f"-{text[2:]}"


def _sum(start: Mapping[Factors, int], *terms: tuple[Factors, int]) -> Expr:
    table = dict(start)
    for factors, count in terms:
        table[factors] = table.get(factors, 0) + count
    found = [(factors, count) for factors, count in table.items() if count]
    return Expr(tuple(sorted(found, key=lambda term: (not term[0], [str(f) for f in term[0]]))))


def _quotient(factors: Factors, count: int, below: Factors, divisor: int) -> tuple[Factors, int] | None:
    """A product divided by another; None where that leaves a rest."""
    left = list(factors)
    for factor in below:
        if factor not in left:
            return None
        left.remove(factor)
    return None if not divisor or count % divisor else (tuple(left), count // divisor)


class Dim(int):
    """A size with its expression. Arithmetic with sizes gives sizes; all else sees a number."""

    expr: Expr

    def __new__(cls, value: int, expr: Expr) -> Dim:
        made = super().__new__(cls, value)
        made.expr = expr
        return made

    def __getnewargs__(self) -> tuple[int, Expr]:  # type: ignore[override]
        return int(self), self.expr

    @staticmethod
    def named(name: str, value: int) -> Dim:
        return Dim(value, Expr.symbol(name))

    def __add__(self, other: Any) -> Any:
        return Dim(int(self) + int(other), self.expr + Expr.of(other)) if isinstance(other, int) else NotImplemented

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return Dim(-int(self), -self.expr)

    def __sub__(self, other: Any) -> Any:
        return self + -other if isinstance(other, int) else NotImplemented

    def __rsub__(self, other: Any) -> Any:
        return -self + other if isinstance(other, int) else NotImplemented

    def __mul__(self, other: Any) -> Any:
        return Dim(int(self) * int(other), self.expr * Expr.of(other)) if isinstance(other, int) else NotImplemented

    __rmul__ = __mul__

    def __floordiv__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return Dim(int(self) // int(other), self.expr.divided(Expr.of(other)))

    def __rfloordiv__(self, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        return Dim(int(other) // int(self), Expr.of(other).divided(self.expr))


def names_in(size: int | Expr) -> dict[str, None]:
    """The names of which a size is made, in order."""
    found: dict[str, None] = {}
    for factors, _ in Expr.of(size).terms:
        for factor in factors:
            found |= {factor: None} if isinstance(factor, str) else names_in(factor.top) | names_in(factor.bottom)
    return found
