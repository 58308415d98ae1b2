"""Conditions under which a kernel asks for a value, and what is asked for on the way to one."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from typing import TypeAlias

from meshgen.codegen.expr import Var
from meshgen.codegen.fusion.space import Index
from meshgen.ir.graph import Value
from meshgen.ops.triton.registers import Code


@dataclass(frozen=True)
class Guard:
    """A condition under which a value is asked for, and the tile variables that it varies with."""

    text: str
    over: tuple[Var, ...]


Guards: TypeAlias = tuple[Guard, ...]
Asked: TypeAlias = tuple[Value, Index, Guards]  # for a value, where, and under which conditions
Steps: TypeAlias = Generator[
    Asked, Code, Code
]  # on the way to a value: asks for others, is given them, and returns its own
NEVER = Guard("never", ())  # never holds: what it guards is not asked for at all
