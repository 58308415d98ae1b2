"""Schedules of local programs, asked for by who compares programs: the programs are fused for it, once each."""

from __future__ import annotations

from dataclasses import dataclass
from weakref import WeakKeyDictionary

from meshgen.codegen.agreement import require_agreement
from meshgen.codegen.donated import readers_first
from meshgen.codegen.fuse import fuse
from meshgen.codegen.schedule import schedule, sequential_bytes, shortest_step
from meshgen.codegen.unroll import unroll
from meshgen.ir.definitions import require_defined
from meshgen.ir.graph import Module
from meshgen.runtime.plan import Schedule

_FUSED: WeakKeyDictionary[Module, Module] = WeakKeyDictionary()
"""Fused programs, kept as long as the local one is: its schedule is looked at before the stage `fuse` comes."""


def fused(module: Module) -> Module:
    """A program of stage partition with kernels, its control flow that communicates written out."""
    if module not in _FUSED:
        flat = unroll(module)
        require_defined(flat, "unroll")
        require_agreement(flat)
        found = readers_first(fuse(flat))
        require_defined(found, "fuse")
        _FUSED[module] = found
    return _FUSED[module]


@dataclass(frozen=True)
class Planner:
    """Schedules for a target, of steps that may take so many bytes (None: what the program's own order takes)."""

    target: str
    memory_limit: int | None

    def sequential_bytes(self, module: Module) -> int:
        """Arena of the program's own order."""
        return sequential_bytes(fused(module), self.target)

    def shortest_step(self, module: Module) -> float:
        """Predicted seconds if the step could take any memory."""
        return shortest_step(fused(module), self.target)

    def plan(self, module: Module) -> Schedule:
        """Raises CodegenError where the step does not fit into memory, or cannot be scheduled."""
        return schedule(fused(module), self.target, memory_limit=self.memory_limit)
