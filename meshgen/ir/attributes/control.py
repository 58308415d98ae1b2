"""Attributes of calls, control flow, manual computations, sorting by value, and random bits."""

from __future__ import annotations

from typing import TypeAlias

from meshgen.ir.attributes.base import Attributes, Flags, Ints, Names
from meshgen.spec import Sharding

Shardings: TypeAlias = tuple[Sharding, ...]
FreeShardings: TypeAlias = tuple[tuple[Sharding, Flags], ...]


class Call(Attributes):
    """Attributes of `call`: the name of the called function. Calls are inlined when a program is parsed."""

    callee: str


class Loop(Attributes):
    """Attributes of `while`: the trip count that the schedule assumes, or 1 if the trip count is unknown."""

    trips: int = 1


class Scan(Attributes):
    """Attributes of `scan`, a loop with a constant trip count whose body may receive slices of its operands.

    Fields:
        trips: the trip count.
        sliced: indices of the operands of which each iteration receives a slice along dim 0.
        offsets, strides: per sliced operand, the first row of the slice in iteration 0, and the number of rows by which
            the slice advances per iteration.
    """

    trips: int
    sliced: Ints = ()
    offsets: Ints = ()
    strides: Ints = ()

    def starts(self, trip: int) -> dict[int, int]:
        """Return the first row of the slice in iteration `trip`, by index of the sliced operand."""
        return {operand: offset + stride * trip for operand, (offset, stride) in self.steps.items()}

    @property
    def steps(self) -> dict[int, tuple[int, int]]:
        """(first row in iteration 0, rows per iteration), by index of the sliced operand."""
        return dict(zip(self.sliced, zip(self.offsets, self.strides, strict=True), strict=True))


class Kernel(Attributes):
    """Attributes of `kernel`: the name of the launched kernel, a key of `Module.kernels`."""

    kernel: str


class Manual(Attributes):
    """Attributes of `manual`, a computation whose body is a per-device program over the manual mesh axes `axes`.

    The other axes of the mesh are free: the partitioner may still shard the computation over them.

    Fields:
        in_shardings, out_shardings: shardings of operands and results over the manual axes.
        in_free, out_free: per operand / result the sharding over free axes, and a flag per dim: whether propagation may
            add free axes to this dim (no flags: it may not). None if free axes must not shard operands and results.
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
    """Attributes of `top_k`: the number of elements to select from each row."""

    k: int


class RandomBits(Attributes):
    """Attributes of `rng_bit_generator`: the algorithm, which is THREE_FRY, PHILOX or DEFAULT."""

    algorithm: str = "DEFAULT"
