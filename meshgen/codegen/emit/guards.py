"""Conditions under which a kernel asks for a value."""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.codegen.expr import Var


@dataclass(frozen=True)
class Guard:
    """A condition under which a value is asked for, and the tile variables that it varies with."""

    text: str
    over: tuple[Var, ...]


Guards = tuple[Guard, ...]
NEVER = Guard("never", ())  # never holds: what it guards is not asked for at all
