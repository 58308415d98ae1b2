"""Abstract values in a kernel's source: integers as index expressions, conditions and addresses.

Registers have 32 or 64 bits and wrap, and `//` and `%` truncate toward zero. An `Expr` has no width and rounds down.
Sums and products of both agree modulo 2^32. In some uses the exact value matters: a dividend, a side of a comparison,
an offset added to a pointer. There, both agree if the expression is in a certain range: a `Need`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from meshgen.codegen.expr import Expr

Exact = np.ndarray[Any, np.dtype[np.int64]]
FAR = 2**70  # a magnitude that stands for "unbounded"
LANE = "lane"  # prefix of the names of variables whose value differs between the lanes of a program


class Need(NamedTuple):
    """A requirement `low <= expr <= high`. If it is not met, a kernel's register differs from the index expression."""

    expr: Expr
    low: int
    high: int


@dataclass(frozen=True)
class Number:
    """An integer in a register, either uniform or with one value per lane.

    Attributes:
        expr: the register's value if the needs are met.
        bits: width of the register, 32 or 64; 0 for a Python integer.
        needs: requirements for the register to have the value of `expr`.
        exact: the value in each program of the grid, if the integer is uniform and known.
    """

    expr: Expr
    bits: int = 0
    needs: tuple[Need, ...] = ()
    exact: Exact | None = field(default=None, compare=False)


class Fact(NamedTuple):
    """The fact `low <= expr <= high`, valid if the needs are met."""

    expr: Expr
    low: int
    high: int
    needs: tuple[Need, ...] = ()


class Condition(NamedTuple):
    """A condition, represented by facts that hold in the lanes where the condition is true. Other lanes are
    unconstrained.
    """

    facts: tuple[Fact, ...] = ()


class Pointer(NamedTuple):
    """An address: `offset` elements after the start of one of the pointer parameters `names`."""

    names: tuple[str, ...]
    offset: Expr
    needs: tuple[Need, ...] = ()


Known = Number | Condition | Pointer | None  # None if nothing is known about the value


def limits(bits: int) -> tuple[int, int]:
    """Return the range of a signed register of `bits` bits. A Python integer (0 bits) is unbounded."""
    return (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if bits else (-FAR, FAR)


def fits(number: Number) -> tuple[Need, ...]:
    """Return the requirements for the register of `number` to equal its expression: its needs, and that it did not
    wrap.
    """
    if not number.bits:
        return number.needs
    return tuple(dict.fromkeys((*number.needs, Need(number.expr, *limits(number.bits)))))
