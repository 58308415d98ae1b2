"""Conditions under which a kernel computes a value, and the requests of the evaluator."""

from __future__ import annotations

from collections.abc import Generator
from typing import NamedTuple, TypeAlias

from meshgen.codegen.expr import Var
from meshgen.codegen.fusion.layout_indices import Index
from meshgen.ir.graph import Value
from meshgen.ops.triton.registers import Code


class Guard(NamedTuple):
    """A condition under which a value is computed, and the tile variables that it depends on."""

    text: str
    over: tuple[Var, ...]


Guards: TypeAlias = tuple[Guard, ...]
Asked: TypeAlias = tuple[Value, Index, Guards]  # for a value, where, and under which conditions
Steps: TypeAlias = Generator[
    Asked, Code, Code
]  # an evaluation: yields requests for other values, receives them, and returns its own
NEVER = Guard("never", ())  # never holds: the guarded value is not computed
