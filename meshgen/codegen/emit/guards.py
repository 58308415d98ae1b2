"""Guards (conditions under which a kernel computes a value), and the types of the evaluator's generators."""

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
# an operand that an evaluation requests: the value, its index and its guards
Asked: TypeAlias = tuple[Value, Index, Guards]
Steps: TypeAlias = Generator[
    Asked, Code, Code
]  # the evaluation of one value: yields requests for operands, receives their registers, returns the result's register
NEVER = Guard("never", ())  # a guard that never holds: the guarded value is not computed
