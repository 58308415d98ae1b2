"""Attributes of calls, manual computations, sorting by value and random bits."""

from __future__ import annotations

from typing import TypeAlias

from meshgen.ir.attributes.base import Attributes, Flags, Names
from meshgen.spec import Sharding

Shardings: TypeAlias = tuple[Sharding, ...]
FreeShardings: TypeAlias = tuple[tuple[Sharding, Flags], ...]


class Call(Attributes):
    """The name of a function; calls are inlined when a program is read."""

    callee: str


class Loop(Attributes):
    """How many trips, where a schedule knows."""

    trips: int = 1


class Kernel(Attributes):
    """The name of a kernel of the module."""

    kernel: str


class Manual(Attributes):
    """A part written per device over `axes`.

    Fields:
        in_shardings, out_shardings: of operands and results over the manual axes.
        in_free, out_free: where free axes may split them: per value the sharding over these, and per dim whether propagation may add
            axes; empty: they may not.
    """

    in_shardings: Shardings
    out_shardings: Shardings
    axes: Names
    in_free: FreeShardings | None = None
    out_free: FreeShardings | None = None


class TopK(Attributes):
    """How many elements of each row."""

    k: int


class RandomBits(Attributes):
    """THREE_FRY, PHILOX or DEFAULT."""

    algorithm: str = "DEFAULT"
