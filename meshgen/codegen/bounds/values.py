"""Abstract values in a kernel's source: integers as index expressions, conditions and addresses.

Registers have 32 or 64 bits and wrap, and `//` and `%` truncate toward zero. An `Expr` has no width and rounds down.
Sums and products
of both agree modulo 2^32. In some uses the exact value matters: a dividend, a side of a comparison, an offset added to
a pointer. There,
both agree if the expression is in a certain range: a `Need`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from meshgen.codegen.expr import Expr

Exact = np.ndarray[Any, np.dtype[np.int64]]
FAR = 2**70  # stands for no bound
LANE = "lane"  # prefix of the names of variables that differ between the lanes of a program


class Need(NamedTuple):
    """A requirement `low <= expr <= high`. If it is violated, the kernel's value differs from the expression."""

    expr: Expr
    low: int
    high: int


@dataclass(frozen=True)
class Number:
    """An integer, uniform or one per lane.

    Attributes:
        expr: its value if the needs are met.
        bits: width of the register, 32 or 64; 0 for a Python integer.
        needs: requirements for the register to have the value of `expr`.
        exact: its value in each program of the grid, if it is uniform and known.
    """

    expr: Expr
    bits: int = 0
    needs: tuple[Need, ...] = ()
    exact: Exact | None = field(default=None, compare=False)


class Fact(NamedTuple):
    """A fact `low <= expr <= high`, valid if the needs are met."""

    expr: Expr
    low: int
    high: int
    needs: tuple[Need, ...] = ()


class Condition(NamedTuple):
    """Facts in the lanes where a condition is true. All other lanes are unconstrained."""

    facts: tuple[Fact, ...] = ()


class Pointer(NamedTuple):
    """An address: `offset` elements from the start of one of the parameters in `names`."""

    names: tuple[str, ...]
    offset: Expr
    needs: tuple[Need, ...] = ()


Known = Number | Condition | Pointer | None  # None: nothing is known


def limits(bits: int) -> tuple[int, int]:
    """Return the range of a signed register, which is unbounded for 0 bits."""
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if bits else (-FAR, FAR)


def fits(number: Number) -> tuple[Need, ...]:
    """Return the requirements for the register to equal the expression: its needs, and that it did not wrap."""
    if not number.bits:
        return number.needs
    return tuple(dict.fromkeys((*number.needs, Need(number.expr, *limits(number.bits)))))
