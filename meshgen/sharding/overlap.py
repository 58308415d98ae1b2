"""Local programs of which more communication hides: their schedules are compared, and the shortest step decides."""

from __future__ import annotations

from dataclasses import replace

from meshgen.codegen.planner import Planner, flat
from meshgen.errors import CodegenError
from meshgen.ir.graph import Module
from meshgen.sharding.chunks.search import CHUNKS, Found, decisions_of, search
from meshgen.sharding.optimizations.collective_combine import collective_combine_large


def overlapped(module: Module, planner: Planner, *, with_chunks: bool = True) -> Module:
    """The program with larger messages and with chains in chunks, each where the predicted step is then shorter."""
    if module.stage != "partition" or not module.mesh.is_static:
        return module
    try:
        module = _with_fewer_messages(module, planner)
        return in_chunks(module, planner).module if with_chunks else module
    except CodegenError:  # it cannot be scheduled at all: said where that is asked for
        return module


def in_chunks(module: Module, planner: Planner) -> Found:
    """The program with chains around exposed collectives in chunks, where that pays, and what was decided.

    Raises CodegenError where the program cannot be scheduled.
    """
    if CHUNKS in module.attrs:  # it was written so
        return Found(module, decisions_of(module))
    found = search(flat(module), planner)
    return found if CHUNKS in found.module.attrs else replace(found, module=module)


def _with_fewer_messages(module: Module, planner: Planner) -> Module:
    larger = collective_combine_large(module)
    if larger is None:
        return module
    seconds = [planner.candidate(each).plan().step_seconds for each in (larger, module)]
    return larger if seconds[0] < seconds[1] else module
