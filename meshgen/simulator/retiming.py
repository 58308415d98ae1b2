"""A schedule with the times of another machine: its kernels, collectives and control flow, priced as the compiler prices them.

The order of launches, their streams and their buffers stay as they were planned.
"""

from __future__ import annotations

from dataclasses import replace

from meshgen.codegen.scheduling.costs import default_costs
from meshgen.codegen.scheduling.timeline import Costs, control_seconds, exposures
from meshgen.ir.graph import Graph
from meshgen.ir.predicates import is_control
from meshgen.machine.profiles import Machine
from meshgen.mesh import Mesh
from meshgen.runtime.plan import STREAMS, Item, Schedule


def retimed(plan: Schedule, mesh: Mesh, machine: Machine) -> tuple[Schedule, Mesh]:
    """Return a schedule as it is predicted on a machine that names its device, and its mesh on that machine.

    The result equals the schedule where it was planned for the same machine.
    """
    mesh = replace(mesh, machine=machine)
    return _Retiming(mesh, costs_on(machine)).step(plan), mesh


def costs_on(machine: Machine) -> Costs:
    """Return the cost model of a machine that names its device."""
    return default_costs(f"cuda:{machine.device}")


class _Retiming:
    """Times of one program on a mesh; each kernel is priced once."""

    def __init__(self, mesh: Mesh, costs: Costs) -> None:
        self._mesh, self._costs = mesh, costs
        self._kernels: dict[Graph, float] = {}

    def step(self, plan: Schedule) -> Schedule:
        """Return a schedule, or a region, with new times."""
        items = _started([self._item(item, plan) for item in plan.items])
        end = max((item.end for item in items), default=0.0)
        return replace(plan, items=items, step_seconds=end, exposures=exposures(items))

    def _item(self, item: Item, plan: Schedule) -> Item:
        if is_control(item):
            regions = tuple(self.step(region) for region in item.regions)
            return replace(
                item, regions=regions, seconds=control_seconds(item.op, regions, item.times, self._costs.copy)
            )
        if item.is_collective:
            return replace(item, seconds=self._costs.collective(plan.collective(item, self._mesh)))
        return replace(item, seconds=self._kernel(item, plan))

    def _kernel(self, item: Item, plan: Schedule) -> float:
        body = plan.kernels[item.kernel]
        if body not in self._kernels:
            self._kernels[body] = self._costs.kernel(body)
        return self._kernels[body]


def _started(items: list[Item]) -> tuple[Item, ...]:
    """Return the items with their starts: each waits for its stream and for its events."""
    free, recorded = [0.0] * STREAMS, dict[int, float]()
    placed: list[Item] = []
    for item in items:
        start = max([free[item.stream], *(recorded[event] for event in item.waits)])
        free[item.stream] = start + item.seconds
        if item.records is not None:
            recorded[item.records] = free[item.stream]
        placed.append(replace(item, start=start))
    return tuple(placed)
