"""Passes that change a local program so that more communication is hidden. Schedules are compared, and the shortest
step wins.
"""

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
    """Return the program after passes that combine messages, split chains into chunks, and prefetch collectives of
    scans.

    Each pass is kept only if the predicted step becomes shorter.
    """
    if module.stage != "partition" or not module.mesh.is_static:
        return module
    planner = Planner.of(context, module.mesh)
    try:
        return context.apply(module, PASSES, lambda program: planner.candidate(program).plan().step_seconds, "s")
    except CodegenError:  # The program cannot be scheduled at all; the schedule stage reports it.
        return module
