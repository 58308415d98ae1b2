"""Index expressions: integer sums over variables, with // and % by constants, simplified by the variables' ranges.

An expression has one normal form, so equal indices compare equal: a constant plus integer multiples of atoms, where an
atom is a variable, a quotient or a remainder. Working backwards from an output, reshape, transpose, slice, pad and
other index maps become expressions over the tile's variables. `(x // 4) * 4 + x % 4` simplifies to `x`, so a chain of
reshapes costs nothing. Division rounds down; divisors are positive.

Triton's `//` and `%` round towards zero. Dividends are therefore never negative while the variables are in range: `(2 -
x) // 3` for x < 15 is stored as `(-x + 14) // 3 - 4`, which either rounding evaluates alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any


class _CachedHash:
    """A hashable part of an expression with a cached hash.

    The cache is not pickled: string hashes differ between processes.
    """

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_hash"}


def _cache_hash(instance: _CachedHash, hash_value: int) -> int:
    instance.__dict__["_hash"] = hash_value
    return hash_value


@dataclass(frozen=True)
class Var(_CachedHash):
    """A variable with an inclusive range; `text` is its name in source."""

    text: str
    low: int
    high: int

    def __hash__(self) -> int:
        cached = self.__dict__.get("_hash")
        return _cache_hash(self, hash((self.text, self.low, self.high))) if cached is None else cached


@dataclass(frozen=True)
class Quotient(_CachedHash):
    """The quotient `of // by`."""

    of: Expr
    by: int

    def __hash__(self) -> int:
        cached = self.__dict__.get("_hash")
        return _cache_hash(self, hash((self.of, self.by))) if cached is None else cached


@dataclass(frozen=True)
class Remainder(_CachedHash):
    """The remainder `of % by`."""

    of: Expr
    by: int

    def __hash__(self) -> int:
        cached = self.__dict__.get("_hash")
        return _cache_hash(self, hash((self.of, self.by))) if cached is None else cached


Atom = Var | Quotient | Remainder


@dataclass(frozen=True)
class Expr(_CachedHash):
    """The sum `const + sum(factor * atom)`, where an atom is a variable, a quotient or a remainder.

    Terms are sorted by their text, and no factor is 0.
    """

    terms: tuple[tuple[Atom, int], ...] = ()
    const: int = 0

    def __hash__(self) -> int:
        cached = self.__dict__.get("_hash")
        return _cache_hash(self, hash((self.terms, self.const))) if cached is None else cached

    def __add__(self, other: Expr | int) -> Expr:
        return add(self, constant(other) if isinstance(other, int) else other)

    def __sub__(self, other: Expr | int) -> Expr:
        return self + (constant(other) if isinstance(other, int) else other) * -1

    def __mul__(self, factor: int) -> Expr:
        if factor == 0:
            return ZERO
        return Expr(tuple((atom, f * factor) for atom, f in self.terms), self.const * factor)

    def __floordiv__(self, by: int) -> Expr:
        return floordiv(self, by)

    def __mod__(self, by: int) -> Expr:
        return mod(self, by)

    @property
    def is_constant(self) -> bool:
        return not self.terms

    @property
    def bounds(self) -> tuple[int, int]:
        return bounds(self)

    def __str__(self) -> str:
        return render(self)


def constant(value: int) -> Expr:
    return Expr((), value)


ZERO = constant(0)


@lru_cache(maxsize=4096)
def variable(text: str, size: int) -> Expr:
    """Return a variable that ranges over [0, size), or the constant 0 if `size` is at most 1."""
    return ZERO if size <= 1 else Expr(((Var(text, 0, size - 1), 1),))


@lru_cache(maxsize=65536)
def bounds(expr: Expr) -> tuple[int, int]:
    """Return an inclusive range that contains all values of the expression; it may be too wide."""
    low = high = expr.const
    for atom, factor in expr.terms:
        least, most = atom_bounds(atom)
        low += min(least * factor, most * factor)
        high += max(least * factor, most * factor)
    return low, high


def atom_bounds(atom: Atom) -> tuple[int, int]:
    match atom:
        case Var(_, low, high):
            return low, high
        case Quotient(of, by):
            low, high = bounds(of)
            return low // by, high // by
        case Remainder(_, by):
            return 0, by - 1


def _normalized_sum(terms: Iterable[tuple[Atom, int]], const: int) -> Expr:
    """Return the normal form of a sum whose atoms may repeat."""
    table: dict[Atom, int] = {}
    for atom, factor in terms:
        table[atom] = table.get(atom, 0) + factor
    kept = [(atom, factor) for atom, factor in table.items() if factor]
    return Expr(tuple(sorted(kept, key=lambda term: _text(term[0]))), const)


@lru_cache(maxsize=65536)
def add(left: Expr, right: Expr) -> Expr:
    """Return the sum. A quotient and a remainder of the same expression are merged if their factors allow it."""
    if not left.terms and not left.const:
        return right
    if not right.terms and not right.const:
        return left
    return _merge_quotients(_normalized_sum((*left.terms, *right.terms), left.const + right.const))


def _merge_quotients(total: Expr) -> Expr:
    """Replace `k*c*(e // c) + k*(e % c)` by `k*e` until no such pair remains.

    The remainder may also be written with another expression that is equal to e modulo c.
    """
    for atom, factor in total.terms:
        if not isinstance(atom, Remainder):
            continue
        quotient = floordiv(atom.of, atom.by)
        table = dict(total.terms)
        del table[atom]
        if all(table.get(other, 0) == f * factor * atom.by for other, f in quotient.terms):
            rest = [(a, f) for a, f in table.items() if a not in dict(quotient.terms)]
            remaining = _normalized_sum(rest, total.const - quotient.const * factor * atom.by)
            return add(remaining, atom.of * factor)
        for other, f in table.items():
            if (
                isinstance(other, Quotient)
                and (other.by, f) == (atom.by, factor * atom.by)
                and mod(other.of, atom.by) == Expr(((atom, 1),))
            ):
                remaining = _normalized_sum([(a, f) for a, f in table.items() if a != other], total.const)
                return add(remaining, other.of * factor)
    return total


@lru_cache(maxsize=65536)
def floordiv(expr: Expr, by: int) -> Expr:
    """Return `expr // by`, rounded down."""
    if by == 1:
        return expr
    divisible = Expr(tuple((a, f // by) for a, f in expr.terms if f % by == 0), expr.const // by)
    rest = Expr(tuple((a, f) for a, f in expr.terms if f % by), expr.const % by)
    return add(divisible, _quotient(rest, by))


def _quotient(rest: Expr, by: int) -> Expr:
    low, high = bounds(rest)
    if low // by == high // by:
        return constant(low // by)
    if split := _split(rest, by):
        step, coarse, _ = split
        return floordiv(coarse, by // step)
    if len(rest.terms) == 1 and not rest.const and rest.terms[0][1] == 1 and isinstance(rest.terms[0][0], Quotient):
        inner = rest.terms[0][0]
        return floordiv(inner.of, inner.by * by)
    steps = max(0, -(low // by))
    return Expr(((Quotient(_raised(rest, steps * by), by), 1),), -steps)


def _raised(rest: Expr, by: int) -> Expr:
    return Expr(rest.terms, rest.const + by)


def _split(rest: Expr, by: int) -> tuple[int, Expr, Expr] | None:
    """Return (g, u, v) with rest = g*u + v and 0 <= v < g for the largest divisor g > 1 of `by`, or None."""
    steps = sorted({math.gcd(f, by) for _, f in rest.terms}, reverse=True)
    for step in steps:
        if step == 1:
            return None
        fine = Expr(tuple((a, f) for a, f in rest.terms if f % step), rest.const % step)
        low, high = bounds(fine)
        if low >= 0 and high < step:
            return step, Expr(tuple((a, f // step) for a, f in rest.terms if f % step == 0), rest.const // step), fine
    return None


@lru_cache(maxsize=65536)
def mod(expr: Expr, by: int) -> Expr:
    """Return `expr % by`, which is never negative."""
    if by == 1:
        return ZERO
    rest = Expr(tuple((a, f) for a, f in expr.terms if f % by), expr.const % by)
    low, high = bounds(rest)
    if low // by == high // by:
        return rest - by * (low // by)
    if split := _split(rest, by):
        step, coarse, fine = split
        return add(mod(coarse, by // step) * step, fine)
    if len(rest.terms) == 1 and not rest.const and rest.terms[0][1] == 1 and isinstance(rest.terms[0][0], Remainder):
        inner = rest.terms[0][0]
        if inner.by % by == 0:
            return mod(inner.of, by)
    return Expr(((Remainder(_raised(rest, max(0, -(low // by)) * by), by), 1),))


@lru_cache(maxsize=65536)
def _text(atom: Atom) -> str:
    match atom:
        case Var(text):
            return text
        case Quotient(of, by):
            return f"{_bracket(of)} // {by}"
        case Remainder(of, by):
            return f"{_bracket(of)} % {by}"


def _bracket(expr: Expr) -> str:
    text = render(expr)
    plain = len(expr.terms) == 1 and not expr.const and expr.terms[0][1] == 1 and isinstance(expr.terms[0][0], Var)
    return text if plain else f"({text})"


def render(expr: Expr) -> str:
    """Return the expression as Python source, with the largest factors first and the constant last."""
    parts: list[str] = []
    for atom, factor in sorted(expr.terms, key=lambda term: -abs(term[1])):
        text = _text(atom)
        if abs(factor) != 1:
            text = f"{text if isinstance(atom, Var) else f'({text})'} * {abs(factor)}"
        elif not isinstance(atom, Var) and (factor < 0 or len(expr.terms) + bool(expr.const) > 1):
            text = f"({text})"
        parts.append(f"{'-' if factor < 0 else '+'} {text}")
    if expr.const or not parts:
        parts.append(f"{'-' if expr.const < 0 else '+'} {abs(expr.const)}")
    joined = " ".join(parts)
    return joined[2:] if joined.startswith("+ ") else "-" + joined[2:]


@lru_cache(maxsize=65536)
def variables(expr: Expr) -> tuple[Var, ...]:
    """Return the variables of the expression, each once, in the order of its terms."""
    unique: dict[Var, None] = {}
    for atom, _ in expr.terms:
        for var in (atom,) if isinstance(atom, Var) else variables(atom.of):
            unique[var] = None
    return tuple(unique)


def substitute(expr: Expr, table: Mapping[Var, Expr]) -> Expr:
    """Return the expression with variables replaced as in `table`, simplified again."""
    total = constant(expr.const)
    for atom, factor in expr.terms:
        match atom:
            case Var():
                part = table.get(atom, Expr(((atom, 1),)))
            case Quotient(of, by):
                part = substitute(of, table) // by
            case Remainder(of, by):
                part = substitute(of, table) % by
        total = total + part * factor
    return total


def evaluate(expr: Expr, values: Mapping[str, int]) -> int:
    """Return the value of the expression, given the values of its variables."""
    total = expr.const
    for atom, factor in expr.terms:
        match atom:
            case Var(text):
                part = values[text]
            case Quotient(of, by):
                part = evaluate(of, values) // by
            case Remainder(of, by):
                part = evaluate(of, values) % by
        total += part * factor
    return total


def linearize(index: Sequence[Expr], shape: Sequence[int]) -> Expr:
    """Return the row-major position of an index."""
    total = ZERO
    for expr, size in zip(index, shape, strict=True):
        total = total * size + expr
    return total


def delinearize(position: Expr, shape: Sequence[int]) -> tuple[Expr, ...]:
    """Return the index at a row-major position. The first component is not wrapped, so it may exceed its dim."""
    components: list[Expr] = []
    for dim, size in reversed(list(enumerate(shape))):
        components.append(position % size if dim else position)
        position = position // size
    return tuple(reversed(components))
