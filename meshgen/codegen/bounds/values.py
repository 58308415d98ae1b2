"""Abstract values of a kernel's source: integers as index expressions, conditions and addresses.

Registers have 32 or 64 bits and wrap, and `//` and `%` truncate towards zero; an `Expr` has no width and rounds down.
Sums and products agree modulo 2^32. Where the value itself matters (a dividend,
a side of a comparison, an offset added to a pointer) the two agree if it is in a range: a `Need`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from meshgen.codegen.expr import Expr

Exact = np.ndarray[Any, np.dtype[np.int64]]
FAR = 2**70  # no bound
LANE = "lane"  # begins the names of variables that differ between the lanes of a program


class Need(NamedTuple):
    """`low <= expr <= high`: without it the source's value differs from the expression's."""

    expr: Expr
    low: int
    high: int


@dataclass(frozen=True)
class Number:
    """A whole number, the same in all lanes or one per lane.

    Attributes:
        bits: of the register, 32 or 64; 0 for a number of Python.
        needs: what must hold for the register to have the value of `expr`.
        exact: its value in each program of the grid, where all lanes of a program have the same.
    """

    expr: Expr
    bits: int = 0
    needs: tuple[Need, ...] = ()
    exact: Exact | None = field(default=None, compare=False)


class Fact(NamedTuple):
    """`low <= expr <= high`, provided that the needs are met."""

    expr: Expr
    low: int
    high: int
    needs: tuple[Need, ...] = ()


class Condition(NamedTuple):
    """Facts in the lanes where a condition is true; the others are unconstrained."""

    facts: tuple[Fact, ...] = ()


class Pointer(NamedTuple):
    """An address: `offset` elements from the start of one of the parameters in `names`."""

    names: tuple[str, ...]
    offset: Expr
    needs: tuple[Need, ...] = ()


Known = Number | Condition | Pointer | None  # None: nothing is known


def limits(bits: int) -> tuple[int, int]:
    """The range of a signed register."""
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if bits else (-FAR, FAR)


def fits(number: Number) -> tuple[Need, ...]:
    """The conditions for the register to equal the expression: its needs, and that it did not wrap."""
    if not number.bits:
        return number.needs
    return tuple(dict.fromkeys((*number.needs, Need(number.expr, *limits(number.bits)))))
