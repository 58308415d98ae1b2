"""Chains of operations around exposed collectives run in 2, 4 or 8 chunks, so that communication overlaps computation."""

from __future__ import annotations

from dataclasses import replace

from meshgen.codegen.planner import Planner
from meshgen.codegen.targets import DEFAULT_TARGET
from meshgen.compilation import Compilation
from meshgen.ir.graph import Module
from meshgen.sharding.chunks.search import CHUNKS, Found, decisions_of, search


def chunks(module: Module, planner: Planner | None = None) -> Module:
    """The program in chunks if the predicted step is then clearly shorter; else itself."""
    return in_chunks(module, planner or Planner(DEFAULT_TARGET, None, Compilation())).module


def in_chunks(module: Module, planner: Planner) -> Found:
    """The same, and the decision for each exposed collective.

    Raises CodegenError if the program cannot be scheduled.
    """
    if CHUNKS in module.attrs:  # it was written in chunks
        return Found(module, decisions_of(module))
    found = search(planner.flat(module), planner)
    if CHUNKS in found.module.attrs:
        return found
    planner.context.decide("chunks", module.graph, found.decisions)
    return replace(found, module=module)
