"""Symbolic sizes: an int, and the expression that computes it from open sizes.

An open tensor dim gets a name; values computed from it (sums, products, quotients) carry the
expression along, so that passes work on numbers and an analysis can still say `2*x_0 + 8`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

Factors: TypeAlias = "tuple[Atom, ...]"


@dataclass(frozen=True)
class Floor:
    """The quotient of two expressions, rounded down."""

    top: Expr
    bottom: Expr

    def at(self, sizes: Mapping[str, int]) -> int:
        return self.top.at(sizes) // self.bottom.at(sizes)

    @property
    def is_ceil(self) -> bool:
        """Whether it is the negative of a quotient that is rounded up: `floor(-a/b)` is `-ceil(a/b)`."""
        return all(count < 0 for _, count in self.top.signed())

    @cached_property
    def text(self) -> str:
        """Without the sign, where it is a quotient that is rounded up."""
        top = str(-self.top if self.is_ceil else self.top)
        return f"{'ceil' if self.is_ceil else 'floor'}({_bracketed(top, ' ')}/{_bracketed(str(self.bottom), '*')})"

    def __str__(self) -> str:
        return self.text


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
        return size.expr if isinstance(size, Dim) else _sum_of_terms({(): int(size)})

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
        return _sum_of_terms({}, *self.terms, *other.terms)

    def __neg__(self) -> Expr:
        return Expr(tuple((factors, -count) for factors, count in self.terms))

    def __mul__(self, other: Expr) -> Expr:
        products = ((tuple(sorted((*f, *g), key=str)), a * b) for f, a in self.terms for g, b in other.terms)
        return _sum_of_terms({}, *products)

    def divided(self, other: Expr) -> Expr:
        """The quotient by a positive number, rounded down; plain where it is exact, one for quotients of quotients."""
        if self.number is not None and other.number:
            return Expr.of(self.number // other.number)
        if len(other.terms) == 1:
            ((below, count),) = other.terms
            parts = [(term, _quotient(*term, below, count)) for term in self.terms]
            if whole := [part for _, part in parts if part is not None]:
                rest = Expr(tuple(term for term, part in parts if part is None))
                return _sum_of_terms({}, *whole) + (rest.divided(other) if rest.terms else rest)
            common = math.gcd(count, *(number for _, number in self.terms))
            if common > 1:
                top = Expr(tuple((factors, number // common) for factors, number in self.terms))
                return top.divided(Expr(((below, count // common),)))
        inner = self.terms[0][0][0] if len(self.terms) == 1 and len(self.terms[0][0]) == 1 else None
        if isinstance(inner, Floor) and self.terms[0][1] == 1:
            return inner.top.divided(inner.bottom * other)
        return Expr((((Floor(self, other),), 1),))

    def divided_up(self, other: Expr) -> Expr:
        """The quotient by a positive number, rounded up."""
        return -(-self).divided(other)

    def signed(self) -> list[tuple[Factors, int]]:
        """The terms as they are written: the signs of quotients that are rounded up are in the numbers."""
        return [
            (factors, count * (-1) ** sum(isinstance(f, Floor) and f.is_ceil for f in factors))
            for factors, count in self.terms
        ]

    def __str__(self) -> str:
        words: list[str] = []
        for factors, count in self.signed():
            names = "*".join(map(str, factors))
            text = names if names and abs(count) == 1 else "*".join(filter(None, (str(abs(count)), names)))
            words.append(f"{'-' if count < 0 else '+'} {text}")
        text = " ".join(words) or "0"
        return text.removeprefix("+ ") if not text.startswith("-") else f"-{text[2:]}"


def _bracketed(text: str, sign: str) -> str:
    """In brackets where the sign, or one that binds less, occurs outside of others."""
    depth = 0
    for letter in text:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if not depth and letter in (" ", sign):
            return f"({text})"
    return text


def _sum_of_terms(start: Mapping[Factors, int], *terms: tuple[Factors, int]) -> Expr:
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

    def __getnewargs__(self) -> tuple[int, Expr]:  # pyright: ignore[reportIncompatibleMethodOverride]  # what __new__ takes
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


def expressions(sizes: Iterable[int | None]) -> tuple[tuple[int, Expr], ...]:
    """The expressions of sizes that have one, by place. What is remembered by size is distinguished by them: sizes of one number are equal."""
    return tuple((place, size.expr) for place, size in enumerate(sizes) if isinstance(size, Dim))
