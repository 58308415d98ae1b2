"""Attributes of calls, manual computations, sorting by value and random bits."""

from __future__ import annotations

from typing import TypeAlias

from meshgen.ir.attributes.base import Attributes, Flags, Ints, Names
from meshgen.spec import Sharding

Shardings: TypeAlias = tuple[Sharding, ...]
FreeShardings: TypeAlias = tuple[tuple[Sharding, Flags], ...]


class Call(Attributes):
    """The name of a function; calls are inlined when a program is read."""

    callee: str


class Loop(Attributes):
    """How many trips, where a schedule knows."""

    trips: int = 1


class Scan(Attributes):
    """A body that runs a known number of times.

    Fields:
        sliced: numbers of the operands of which the body has, at each trip, some rows only: a part along the first dim.
        offsets, strides: for each of these the first of its rows at the first trip, and by how many rows the next ones are further on.
    """

    trips: int
    sliced: Ints = ()
    offsets: Ints = ()
    strides: Ints = ()

    def starts(self, trip: int) -> dict[int, int]:
        """The first row at a trip, of each operand of which the body has rows."""
        return {n: first + step * trip for n, (first, step) in self.steps.items()}

    @property
    def steps(self) -> dict[int, tuple[int, int]]:
        """Offset and stride of each operand of which the body has rows."""
        return dict(zip(self.sliced, zip(self.offsets, self.strides, strict=True), strict=True))


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

    def ends(self, side: str) -> list[tuple[Sharding, Sharding, Flags]]:
        """Of each operand (side `in`) or result (`out`): its sharding over the manual axes and over free ones, and which dims are open to more."""
        shardings, free = (self.in_shardings, self.in_free) if side == "in" else (self.out_shardings, self.out_free)
        free = free or [(Sharding.replicated(s.rank), (False,) * s.rank) for s in shardings]
        return [(s, *rest) for s, rest in zip(shardings, free, strict=True)]


class TopK(Attributes):
    """How many elements of each row."""

    k: int


class RandomBits(Attributes):
    """THREE_FRY, PHILOX or DEFAULT."""

    algorithm: str = "DEFAULT"
