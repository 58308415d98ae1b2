"""Compute the cost of a solved program that is planned up to partitioning. The cost decides between equivalent programs
and between splits of axes.

Example, x=4: `%q = slice (dot %x, %w) [:, 0:32]` with `%x : f32[64,32]{x}`, `%w : f32[32,96]{,x}` exchanges columns of
activations. `dot %x, (slice %w)` exchanges rows of the weight instead, which are fewer bytes, and the dot does a third
of the work.

The estimates along single axes do not add up to this cost if axes are split differently: two halves of an axis reduce
in two steps in the estimates, and in one step in the plan. Bytes on links decide between such programs. Latencies count
separately: they justify a plan that moves or repeats more only if it saves both a large fraction of the step and an
absolute minimum of time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from meshgen.ccl.links import Rate, rate_along, rate_between
from meshgen.codegen.planner import Planner
from meshgen.codegen.targets import DEFAULT_TARGET, predicted_on
from meshgen.compilation import Compilation
from meshgen.cost_model.model import DEFAULT
from meshgen.errors import CodegenError
from meshgen.ir.graph import Module
from meshgen.mesh import Mesh
from meshgen.ops.classes import CONTRACTIONS
from meshgen.sharding.analyze import CollectiveRecord, volume_of
from meshgen.sharding.multi_mesh.transfer_shardings import with_near_shardings
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.propagation.unsplit_program import view_of
from meshgen.sharding.stages import materialized, optimized, partitioned

CHOOSING = ("concatenate", "select")  # ops without work of their own, since masks are fused


@dataclass(frozen=True)
class Seconds:
    """Predicted seconds per step on one device: bytes on links, work of dots, work of all other ops, and latencies."""

    links: float
    dots: float
    rows: float
    latencies: float

    @property
    def total(self) -> float:
        """Return the seconds without the latencies of collectives."""
        return self.links + self.dots + self.rows

    @property
    def step(self) -> float:
        """Return the seconds with latencies, as if no computation overlapped with collectives."""
        return self.total + self.latencies

    def __lt__(self, other: Seconds) -> bool:
        return (self.total, self.links) < (other.total, other.links)

    def justifies_change(self, first: Seconds) -> bool:
        """Whether this cost is so much lower than `first` that it justifies a program other than the user's."""
        weights = DEFAULT.rewriting
        if self.total < weights.worth * first.total:
            return True
        is_work_similar = self.dots <= weights.more_dots * first.dots and self.rows <= weights.more_rows * first.rows
        return is_work_similar and self.links < weights.worth * first.links

    def is_shorter(self, first: Seconds) -> bool:
        """Whether this cost, latencies included, is clearly lower than `first`, although the plan may move or repeat
        more.
        """
        weights = DEFAULT.rewriting
        return self.step < weights.worth * first.step and self.step < first.step - weights.saved_seconds


def planned_seconds(solved: Solved, written: Module, context: Compilation) -> Seconds:
    """Return the cost of a solved program after partitioning. `written` is the module with the decisions written into
    it.
    """
    view = view_of(solved.axes.whole, solved.labels, solved.module.mesh)
    work = {site: view.work(site) for site in solved.sites if site.node.op not in CHOOSING}
    dots = sum(seconds for site, seconds in work.items() if site.node.op in CONTRACTIONS)
    links, latencies = link_seconds(_local(written, context))
    return Seconds(links, dots, sum(work.values()) - dots, latencies)


def step_seconds(written: Module, context: Compilation) -> float:
    """Return the predicted seconds of a step of a program with decisions, without chunks.

    Returns infinity if the program cannot be scheduled. The prediction is for the default target, or for the device of
    this machine.
    """
    local = _local(written, context)
    try:
        return Planner(*predicted_on(DEFAULT_TARGET, None, local.mesh), context).candidate(local).plan().step_seconds
    except CodegenError:
        return math.inf


def _local(written: Module, context: Compilation) -> Module:
    sharded = optimized(materialized(with_near_shardings(written), context), context)
    return partitioned(sharded, "local", context)


def link_seconds(local: Module) -> tuple[float, float]:
    """Return the seconds of a local program's bytes on links, and the seconds of its collectives' latencies."""
    records = [record for record in volume_of(local).collectives if record.ring_bytes]
    rates = [_rate(record, local.mesh) for record in records]
    links = sum(record.ring_bytes * record.times / rate.bandwidth for record, rate in zip(records, rates, strict=True))
    return links, sum(record.times * rate.latency for record, rate in zip(records, rates, strict=True))


def _rate(record: CollectiveRecord, mesh: Mesh) -> Rate:
    # a record without axes is a transfer to another mesh
    return rate_along(mesh, record.axes) if record.axes else rate_between(mesh)
