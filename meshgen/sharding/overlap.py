"""Change a local program so that more communication is hidden: schedules are compared, and the shortest step decides."""

from __future__ import annotations

from meshgen.codegen.planner import Planner
from meshgen.compilation import Compilation
from meshgen.errors import CodegenError
from meshgen.ir.graph import Module
from meshgen.sharding.chunks.chunks import chunks
from meshgen.sharding.collective_combine_large import collective_combine_large
from meshgen.sharding.scan_prefetch import scan_prefetch

PASSES = (collective_combine_large, chunks, scan_prefetch)


def overlapped(module: Module, context: Compilation) -> Module:
    """Return the program with larger messages, chains in chunks and collectives of scans an iteration ahead.

    Each change is kept if the predicted step is then shorter.
    """
    if module.stage != "partition" or not module.mesh.is_static:
        return module
    planner = Planner.of(context, module.mesh)
    try:
        return context.apply(module, PASSES, lambda each: planner.candidate(each).plan().step_seconds, "s")
    except CodegenError:  # it cannot be scheduled at all: the schedule stage reports it
        return module
