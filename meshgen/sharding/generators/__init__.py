"""The vocabulary of the generated programs: one function per kind of op, which appends to the graph where it can."""

from collections.abc import Callable

from meshgen.sharding.generators import (
    collectives,
    contraction,
    control,
    elementwise,
    linalg,
    lookup,
    movement,
    patterns,
    windows,
)
from meshgen.sharding.generators.writer import OPEN, USUAL, WIDE, Variety, Writer

OPS: tuple[Callable[[Writer], None], ...] = (
    *elementwise.OPS, *movement.OPS, *contraction.OPS, *lookup.OPS, *windows.OPS, *control.OPS,
    *collectives.OPS, *patterns.OPS, *linalg.OPS,
)  # fmt: skip

__all__ = ["OPEN", "OPS", "USUAL", "WIDE", "Variety", "Writer"]
