"""Cached fusion and scheduling of local programs, for passes that compare alternatives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from meshgen.codegen.fuse import fuse
from meshgen.codegen.horizontal_fusion import horizontal_fusion
from meshgen.codegen.passes.loop_unroll import loop_unroll
from meshgen.codegen.product_fusion import product_fusion
from meshgen.codegen.scheduling.costs import default_costs
from meshgen.codegen.scheduling.donated_updates import donated_updates
from meshgen.codegen.scheduling.donation import hoist_donated_reads
from meshgen.codegen.scheduling.schedule import Steps
from meshgen.codegen.targets import predicted_on
from meshgen.codegen.uniform_control_flow import require_agreement
from meshgen.compilation import Compilation
from meshgen.ir.chunk_decisions import ChunkDecision
from meshgen.ir.definitions import require_defined
from meshgen.ir.graph import Module
from meshgen.mesh import Mesh
from meshgen.runtime.plan import Schedule


def flat(module: Module, context: Compilation) -> Module:
    """Unroll the control flow that communicates in a partition-stage program.

    Returns the program itself if it has none.
    """
    return context.made("flat", module, lambda inner: inner.apply(module, (loop_unroll,)))


def fused(module: Module, context: Compilation) -> Module:
    """Fuse a partition-stage program, after unrolling the control flow that communicates."""
    module = flat(module, context)
    return context.made("fuse", module, lambda inner: _fused(module, inner))


def _fused(module: Module, context: Compilation) -> Module:
    require_agreement(module)
    fused_module = fuse(module, context)
    require_defined(fused_module, "fuse")
    return context.apply(hoist_donated_reads(donated_updates(fused_module)), (product_fusion, horizontal_fusion))


def planned(module: Module, target: str, memory_limit: int | None, context: Compilation) -> Schedule:
    """Return the schedule of a fused module.

    Raises:
        CodegenError: MG0303, the step needs more device memory than `memory_limit`.
    """
    return Candidate(module, target, memory_limit, context).plan()


@dataclass(frozen=True)
class Planner:
    """Creates schedules for a target and a memory limit in bytes per device (None: the memory that program order
    needs).
    """

    target: str
    memory_limit: int | None
    context: Compilation

    @classmethod
    def of(cls, context: Compilation, mesh: Mesh) -> Planner:
        """Return the planner for the target and memory limit of a compilation or, by default, of the mesh's machine."""
        return cls(*predicted_on(context.target, context.memory_limit, mesh), context)

    def flat(self, module: Module) -> Module:
        """Unroll the control flow that communicates."""
        return flat(module, self.context.trial())

    def _fused(self, module: Module) -> Module:
        return fused(module, self.context.trial())

    def candidate(self, module: Module) -> Candidate:
        """Return a local program as a candidate, which can be compared with other candidates."""
        return Candidate(self._fused(module), self.target, self.memory_limit, self.context)

    def with_chunks(self, module: Module, decisions: tuple[ChunkDecision, ...], memory_cap: int) -> Module:
        """Record in a local program the decisions that split values into chunks. The cached fusion and schedule stay
        valid.
        """

        def changed(original: Module) -> Module:
            return replace(original, chunks=decisions, memory_cap=memory_cap)

        self._fused(module)
        noted = changed(module)
        self.context.take(noted, module, changed)
        return noted


class Candidate:
    """A fused program that a pass may choose. Bounds on its step time are available before it is scheduled."""

    def __init__(self, module: Module, target: str, memory_limit: int | None, context: Compilation) -> None:
        self.module = module
        self._target, self._memory_limit, self._context = target, memory_limit, context

    def plan(self) -> Schedule:
        """Return the schedule of the program.

        Raises:
            CodegenError: the step needs too much memory, or cannot be scheduled.
        """
        key = "schedule", self._target, self._memory_limit
        return self._context.once(self.module, key, lambda: self.steps.plan(self._memory_limit))

    @cached_property
    def steps(self) -> Steps:
        """Return the possible orders of the program's launches."""
        return Steps(self.module, default_costs(self._target))
