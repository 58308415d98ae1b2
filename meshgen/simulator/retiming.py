"""Re-timing of a schedule for another machine: the compiler's cost model predicts new times for kernels, collectives
and control flow.

The order of launches, their streams and their buffers do not change.
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
    """Return the schedule with the times predicted for `machine`, and the mesh on that machine. `machine.device` must
    be set.

    If the schedule was planned for the same machine, the result equals it.
    """
    mesh = replace(mesh, machine=machine)
    return _Retiming(mesh, costs_on(machine)).step(plan), mesh


def costs_on(machine: Machine) -> Costs:
    """Return the cost model for the device that `machine` names."""
    return default_costs(f"cuda:{machine.device}")


class _Retiming:
    """Re-times one program on a mesh. The time of each distinct kernel is predicted once."""

    def __init__(self, mesh: Mesh, costs: Costs) -> None:
        self._mesh, self._costs = mesh, costs
        self._kernels: dict[Graph, float] = {}

    def step(self, plan: Schedule) -> Schedule:
        """Return a schedule or region with new times."""
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
    """Return the items with new start times: an item starts when its stream is free and its events are recorded."""
    stream_free, recorded = [0.0] * STREAMS, dict[int, float]()
    started: list[Item] = []
    for item in items:
        start = max([stream_free[item.stream], *(recorded[event] for event in item.waits)])
        stream_free[item.stream] = start + item.seconds
        if item.records is not None:
            recorded[item.records] = stream_free[item.stream]
        started.append(replace(item, start=start))
    return tuple(started)
