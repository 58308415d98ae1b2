"""Attributes of calls, control flow, manual computations, sorting by value, and random bits."""

from __future__ import annotations

from typing import TypeAlias

from meshgen.ir.attributes.base import Attributes, Flags, Ints, Names
from meshgen.spec import Sharding

Shardings: TypeAlias = tuple[Sharding, ...]
FreeShardings: TypeAlias = tuple[tuple[Sharding, Flags], ...]


class Call(Attributes):
    """The name of the called function; calls are inlined when a program is parsed."""

    callee: str


class Loop(Attributes):
    """The trip count that the schedule assumes; 1 if it is unknown."""

    trips: int = 1


class Scan(Attributes):
    """Attributes of a loop with a constant trip count, whose body may receive slices of its operands.

    Fields:
        trips: the trip count.
        sliced: indices of the operands of which each iteration receives a slice along dim 0.
        offsets, strides: for each of these, the first row in iteration 0, and the step in rows per iteration.
    """

    trips: int
    sliced: Ints = ()
    offsets: Ints = ()
    strides: Ints = ()

    def starts(self, trip: int) -> dict[int, int]:
        """Return the first row of each sliced operand in iteration `trip`, by operand index."""
        return {operand: offset + stride * trip for operand, (offset, stride) in self.steps.items()}

    @property
    def steps(self) -> dict[int, tuple[int, int]]:
        """The offset and stride of each sliced operand, by operand index."""
        return dict(zip(self.sliced, zip(self.offsets, self.strides, strict=True), strict=True))


class Kernel(Attributes):
    """The name of the launched kernel in the module."""

    kernel: str


class Manual(Attributes):
    """Attributes of a computation that is written per device over the mesh axes `axes`.

    Fields:
        in_shardings, out_shardings: shardings of operands and results over the manual axes.
        in_free, out_free: per operand / result the sharding over free axes, and for each dim whether propagation
            may add axes (empty: it may not). None if free axes must not shard operands and results.
    """

    in_shardings: Shardings
    out_shardings: Shardings
    axes: Names
    in_free: FreeShardings | None = None
    out_free: FreeShardings | None = None

    def ends(self, side: str) -> list[tuple[Sharding, Sharding, Flags]]:
        """Return (sharding over manual axes, sharding over free axes, open dims) of each operand or result.

        `side` is `in` for operands and `out` for results.
        """
        shardings, free = (self.in_shardings, self.in_free) if side == "in" else (self.out_shardings, self.out_free)
        free = free or [(Sharding.replicated(s.rank), (False,) * s.rank) for s in shardings]
        return [(s, *rest) for s, rest in zip(shardings, free, strict=True)]


class TopK(Attributes):
    """The number of elements to select from each row."""

    k: int


class RandomBits(Attributes):
    """The generator: THREE_FRY, PHILOX or DEFAULT."""

    algorithm: str = "DEFAULT"
