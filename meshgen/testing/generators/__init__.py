"""The ops of random programs: one function per kind of op. It appends the op to the graph if a value of the graph can
be the operand.
"""

from collections.abc import Callable

from meshgen.testing.generators import (
    collectives,
    composites,
    contraction,
    control,
    elementwise,
    gather_scatter,
    linalg,
    movement,
    patterns,
    windows,
)
from meshgen.testing.generators import repeated_operands as repeated
from meshgen.testing.generators.writer import ODD, OPEN, USUAL, WIDE, Variety, Writer

OPS: tuple[Callable[[Writer], None], ...] = (
    *elementwise.OPS, *movement.OPS, *contraction.OPS, *gather_scatter.OPS, *windows.OPS, *control.OPS,
    *collectives.OPS, *patterns.OPS, *linalg.OPS,
)  # fmt: skip
ODD_OPS: tuple[Callable[[Writer], None], ...] = (
    *OPS,
    control.barrier,
    contraction.ragged,
    *composites.OPS,
    *repeated.OPS,
    *repeated.OPS,
)

__all__ = ["ODD", "ODD_OPS", "OPEN", "OPS", "USUAL", "WIDE", "Variety", "Writer"]
