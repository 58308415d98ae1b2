"""Chains of operations around exposed collectives run in 2, 4 or 8 chunks, so that communication overlaps computation."""

from __future__ import annotations

from dataclasses import replace
from weakref import WeakKeyDictionary

from meshgen.codegen.planner import Planner
from meshgen.ir.graph import Graph, Module
from meshgen.sharding.chunks.search import CHUNKS, Decision, Found, decisions_of, search

_USUAL = Planner("cuda:sm_90", None)


def chunks(module: Module, planner: Planner = _USUAL) -> Module:
    """The program in chunks if the predicted step is then clearly shorter; else itself."""
    return in_chunks(module, planner).module


def in_chunks(module: Module, planner: Planner) -> Found:
    """The same, and the decision for each exposed collective.

    Raises CodegenError if the program cannot be scheduled.
    """
    if CHUNKS in module.attrs:  # it was written in chunks
        return Found(module, decisions_of(module))
    found = search(planner.flat(module), planner)
    if CHUNKS in found.module.attrs:
        return found
    _WHOLE[module.graph] = planner, found.decisions
    return replace(found, module=module)


_WHOLE: WeakKeyDictionary[Graph, tuple[Planner, tuple[Decision, ...]]] = WeakKeyDictionary()
"""The decisions for programs that stayed whole, and their planners, kept as long as their graphs are."""


def decided(module: Module, planner: Planner) -> tuple[Decision, ...]:
    """The decision for each exposed collective, of a program after `chunks` or of any other."""
    known = _WHOLE.get(module.graph)
    return known[1] if known and known[0] == planner else in_chunks(module, planner).decisions
