"""Symbolic sizes: integers with an expression over the unknown sizes of a program.

Each unknown dim of a tensor has a name and an assumed size. Arithmetic on such sizes also computes the expression, so
passes work on plain integers while an analysis can still print `2*x_0 + 8`.
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
    """A quotient of two expressions, rounded down."""

    top: Expr
    bottom: Expr

    def at(self, sizes: Mapping[str, int]) -> int:
        return self.top.at(sizes) // self.bottom.at(sizes)

    @property
    def is_ceil(self) -> bool:
        """Whether the quotient equals a negated ceiling: `floor(-a/b)` is `-ceil(a/b)`."""
        return all(count < 0 for _, count in self.top.signed())

    @cached_property
    def text(self) -> str:
        """The quotient as text. A negated ceiling is printed without its sign (see `Expr.signed`)."""
        top = str(-self.top if self.is_ceil else self.top)
        return f"{'ceil' if self.is_ceil else 'floor'}({_bracketed(top, ' ')}/{_bracketed(str(self.bottom), '*')})"

    def __str__(self) -> str:
        return self.text


Atom: TypeAlias = "str | Floor"


@dataclass(frozen=True)
class Expr:
    """A polynomial over names and rounded quotients: terms of (factors, coefficient), sorted by their text."""

    terms: tuple[tuple[Factors, int], ...]

    @staticmethod
    def of(size: int | Expr) -> Expr:
        """Return the expression of a size; a plain integer becomes a constant."""
        if isinstance(size, Expr):
            return size
        return size.expr if isinstance(size, Dim) else _sum_of_terms({(): int(size)})

    @staticmethod
    def symbol(name: str) -> Expr:
        return Expr((((name,), 1),))

    @property
    def number(self) -> int | None:
        """The value of a constant expression, or None if the expression contains a name."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def at(self, sizes: Mapping[str, int]) -> int:
        """Evaluate the expression for `sizes` by name. Raises KeyError for a missing name."""
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
        """Divide by a positive expression, rounding down.

        Terms that the divisor divides exactly are divided one by one. A quotient of a quotient becomes a single
        quotient.
        """
        if self.number is not None and other.number:
            return Expr.of(self.number // other.number)
        if len(other.terms) == 1:
            ((divisor_factors, count),) = other.terms
            quotients = [(term, _quotient(*term, divisor_factors, count)) for term in self.terms]
            if exact := [quotient for _, quotient in quotients if quotient is not None]:
                inexact = Expr(tuple(term for term, quotient in quotients if quotient is None))
                return _sum_of_terms({}, *exact) + (inexact.divided(other) if inexact.terms else inexact)
            common = math.gcd(count, *(coefficient for _, coefficient in self.terms))
            if common > 1:
                top = Expr(tuple((factors, coefficient // common) for factors, coefficient in self.terms))
                return top.divided(Expr(((divisor_factors, count // common),)))
        inner = self.terms[0][0][0] if len(self.terms) == 1 and len(self.terms[0][0]) == 1 else None
        if isinstance(inner, Floor) and self.terms[0][1] == 1:
            return inner.top.divided(inner.bottom * other)
        return Expr((((Floor(self, other),), 1),))

    def divided_up(self, other: Expr) -> Expr:
        """Divide by a positive expression, rounding up."""
        return -(-self).divided(other)

    def signed(self) -> list[tuple[Factors, int]]:
        """Return the terms as they are printed.

        A ceiling is stored as a negated `Floor`, so the sign of a coefficient flips for each ceiling in its term.
        """
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
    """Put `text` in brackets if it has a space or the operator `sign` outside of all brackets."""
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
    nonzero = [(factors, count) for factors, count in table.items() if count]
    return Expr(tuple(sorted(nonzero, key=lambda term: (not term[0], [str(f) for f in term[0]]))))


def _quotient(factors: Factors, count: int, divisor_factors: Factors, divisor: int) -> tuple[Factors, int] | None:
    """Divide one term by another, or return None if the division is not exact."""
    remaining = list(factors)
    for factor in divisor_factors:
        if factor not in remaining:
            return None
        remaining.remove(factor)
    return None if not divisor or count % divisor else (tuple(remaining), count // divisor)


class Dim(int):
    """An integer with its symbolic expression. Arithmetic on it returns a `Dim`; to all other code it is an int."""

    expr: Expr

    def __new__(cls, value: int, expr: Expr) -> Dim:
        size = super().__new__(cls, value)
        size.expr = expr
        return size

    # Implements pickling: the arguments of `__new__`.
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
    """Return the names that occur in the expression of a size, in order of occurrence."""
    names: dict[str, None] = {}
    for factors, _ in Expr.of(size).terms:
        for factor in factors:
            names |= {factor: None} if isinstance(factor, str) else names_in(factor.top) | names_in(factor.bottom)
    return names


def expressions(sizes: Iterable[int | None]) -> tuple[tuple[int, Expr], ...]:
    """Return each symbolic size in `sizes` as (dim index, expression), for use in cache keys.

    Symbolic sizes compare equal if their integers are equal, so a cache key without expressions would confuse them.
    """
    return tuple((dim, size.expr) for dim, size in enumerate(sizes) if isinstance(size, Dim))
