"""Conditions under which a kernel asks for a value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from meshgen.codegen.expr import Var
from meshgen.codegen.fusion.space import Index
from meshgen.ir.graph import Value


@dataclass(frozen=True)
class Guard:
    """A condition under which a value is asked for, and the tile variables that it varies with."""

    text: str
    over: tuple[Var, ...]


Guards: TypeAlias = tuple[Guard, ...]
Wanted: TypeAlias = tuple[Value, Index, Guards]  # a value, where, and under which conditions
NEVER = Guard("never", ())  # never holds: what it guards is not asked for at all
