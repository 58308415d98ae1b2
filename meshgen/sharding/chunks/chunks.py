"""Chains of operations around collectives that nothing hides run in 2, 4 or 8 chunks, so that communication overlaps computation."""

from __future__ import annotations

from dataclasses import replace

from meshgen.codegen.planner import Planner, flat
from meshgen.ir.graph import Module
from meshgen.sharding.chunks.search import CHUNKS, Found, decisions_of, search

_USUAL = Planner("cuda:sm_90", None)


def chunks(module: Module, planner: Planner = _USUAL) -> Module:
    """The program in chunks where the step is then predicted to be clearly shorter; else itself."""
    return in_chunks(module, planner).module


def in_chunks(module: Module, planner: Planner) -> Found:
    """The same, and what was decided for each collective that nothing hides.

    Raises CodegenError where the program cannot be scheduled.
    """
    if CHUNKS in module.attrs:  # it was written so
        return Found(module, decisions_of(module))
    found = search(flat(module), planner)
    return found if CHUNKS in found.module.attrs else replace(found, module=module)
