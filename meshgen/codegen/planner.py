"""Cached fusion and scheduling of local programs, for passes that compare alternatives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

from meshgen.codegen.agreement import require_agreement
from meshgen.codegen.costs import default_costs
from meshgen.codegen.donated import readers_first
from meshgen.codegen.donated_updates import donated_updates
from meshgen.codegen.fuse import LOOP_UNROLL, fuse
from meshgen.codegen.horizontal_fusion import horizontal_fusion
from meshgen.codegen.product_fusion import product_fusion
from meshgen.codegen.schedule import Steps
from meshgen.ir.definitions import require_defined
from meshgen.ir.graph import Module
from meshgen.pass_manager import Kept, Pass, PassManager
from meshgen.records import dataclass
from meshgen.runtime.plan import Schedule

PRODUCT_FUSION = Pass("product-fusion", product_fusion, ("fuse",), "always")
HORIZONTAL_FUSION = Pass("horizontal-fusion", horizontal_fusion, ("fuse",), "always")
_FLAT, _FUSED = Kept(), Kept()  # the schedule of a local program is looked at before the stage `fuse` comes
_PLANS: WeakKeyDictionary[Module, dict[tuple[str, int | None], Schedule]] = WeakKeyDictionary()
"""Schedules of fused programs by target and limit of memory, kept as long as these are."""


def flat(module: Module, manager: PassManager) -> Module:
    """A program of stage partition with control flow that communicates unrolled; itself if there is none."""
    return _FLAT.of(module, manager, lambda inner: inner.apply(module, (LOOP_UNROLL,)))


def fused(module: Module, manager: PassManager) -> Module:
    """A program of stage partition with kernels, control flow that communicates unrolled."""
    module = flat(module, manager)
    return _FUSED.of(module, manager, lambda inner: _fused(module, inner))


def _fused(module: Module, manager: PassManager) -> Module:
    require_agreement(module)
    found = fuse(module, manager)
    require_defined(found, "fuse")
    return manager.apply(readers_first(donated_updates(found)), (PRODUCT_FUSION, HORIZONTAL_FUSION))


def planned(module: Module, target: str, memory_limit: int | None) -> Schedule:
    """The schedule of a fused module. Raises CodegenError MG0303 where the step does not fit into memory."""
    return Candidate(module, target, memory_limit).plan()


@dataclass(frozen=True)
class Planner:
    """Schedules for a target, of steps that may take so many bytes (None: what the program's own order takes).

    Attributes:
        skip: names of passes that are left out.
    """

    target: str
    memory_limit: int | None
    skip: frozenset[str] = frozenset()

    def flat(self, module: Module) -> Module:
        """A local program with control flow that communicates unrolled."""
        return flat(module, PassManager(self.skip))

    def _fused(self, module: Module) -> Module:
        return fused(module, PassManager(self.skip))

    def candidate(self, module: Module) -> Candidate:
        """A local program, to be compared with others."""
        return Candidate(self._fused(module), self.target, self.memory_limit)

    def with_attrs(self, module: Module, attrs: Mapping[str, Any]) -> Module:
        """A local program with further attributes, which its schedule does not depend on: what is known of it is kept."""

        def changed(each: Module) -> Module:
            return replace(each, attrs={**each.attrs, **attrs})

        before, found = self._fused(module), changed(module)
        _FUSED.take(found, module, changed)
        _PLANS[self._fused(found)] = _PLANS.get(before, {})
        return found


class Candidate:
    """A fused program that may be chosen: bounds of its step are known before it is scheduled."""

    def __init__(self, module: Module, target: str, memory_limit: int | None) -> None:
        self.module = module
        self._key = target, memory_limit

    def plan(self) -> Schedule:
        """Raises CodegenError where the step does not fit into memory, or cannot be scheduled."""
        known = _PLANS.setdefault(self.module, {})
        if self._key not in known:
            known[self._key] = self.steps.plan(self._key[1])
        return known[self._key]

    @cached_property
    def steps(self) -> Steps:
        """Orders of its launches."""
        return Steps(self.module, default_costs(self._key[0]))
