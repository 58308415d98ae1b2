"""Guards (conditions under which a kernel computes a value), and the requests that evaluations exchange."""

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
Asked: TypeAlias = tuple[Value, Index, Guards]  # a request for a value at an index under guards
Steps: TypeAlias = Generator[
    Asked, Code, Code
]  # an evaluation: yields requests for operands, receives their registers, and returns the register of its result
NEVER = Guard("never", ())  # never holds: the guarded value is not computed
