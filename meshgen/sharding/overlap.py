"""Change a local program so that more communication is hidden: schedules are compared, and the shortest step decides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from meshgen.codegen.planner import Planner
from meshgen.compilation import Compilation, Pass
from meshgen.cost_model.model import DEFAULT
from meshgen.errors import CodegenError
from meshgen.ir.graph import Module
from meshgen.sharding.chunks.chunks import chunks
from meshgen.sharding.optimizations.collective_combine_large import collective_combine_large
from meshgen.sharding.rewrites.compare import link_seconds
from meshgen.sharding.scan_prefetch import scan_prefetch

PASSES = (
    Pass("collective-combine-large", collective_combine_large, ("partition",), "if cheaper"),
    Pass("chunks", chunks, ("partition",), "if cheaper"),
    Pass("scan-prefetch", scan_prefetch, ("partition",), "if cheaper"),
)


def overlapped(module: Module, planner: Planner, context: Compilation) -> Module:
    """The program with larger messages, chains in chunks and collectives of scans a trip ahead, each if the predicted step is then shorter."""
    if module.stage != "partition" or not module.mesh.is_static:
        return module

    def step(each: Module) -> float:
        return planner.candidate(each).plan().step_seconds

    larger, in_pieces, early = PASSES
    larger = replace(larger, run=partial(_larger, step=step))
    in_pieces = replace(in_pieces, run=partial(chunks, planner=planner))
    early = replace(early, run=partial(scan_prefetch, planner=planner))
    try:
        return context.apply(module, (larger, in_pieces, early), step, "s")
    except CodegenError:  # it cannot be scheduled at all: the schedule stage reports it
        return module


def _larger(module: Module, step: Callable[[Module], float]) -> Module:
    """With larger messages; itself where the latencies that these save are less of the step than a prediction is worth."""
    found = collective_combine_large(module)
    if found is module:
        return module
    saved = link_seconds(module)[1] - link_seconds(found)[1]
    return found if saved >= (DEFAULT.scheduling.same_step - 1) * step(module) else module
