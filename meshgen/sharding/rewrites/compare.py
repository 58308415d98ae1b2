"""Compute the cost of a solved program planned up to partitioning, by which equivalent programs and cuts of axes are compared.

Example, x=4: `%q = slice (dot %x, %w) [:, 0:32]` with `%x : f32[64,32]{x}`, `%w : f32[32,96]{,x}` exchanges columns of
activations; `dot %x, (slice %w)` exchanges rows of the weight: fewer bytes, and a third of the work of the dot.

The estimates along single axes do not add up to this if axes are cut in different ways: two halves of an axis reduce
in two steps in the estimates and in one in the plan. Bytes decide between them. Latencies are counted separately: they justify
a plan that moves or repeats more only if it saves a good part of the step, and more than a toy program has.
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
from meshgen.sharding.multi_mesh.crossings import alone
from meshgen.sharding.propagation.amounts import view_of
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.stages import materialized, optimized, partitioned

CHOOSING = ("concatenate", "select")  # their work is left out: masks are fused away


@dataclass(frozen=True)
class Seconds:
    """Seconds of bytes on links, of one device's work (dots, and all other ops), and of the latencies of collectives."""

    links: float
    dots: float
    rows: float
    latencies: float

    @property
    def total(self) -> float:
        """All but latencies."""
        return self.links + self.dots + self.rows

    @property
    def step(self) -> float:
        """All, as if nothing ran beside a collective."""
        return self.total + self.latencies

    def __lt__(self, other: Seconds) -> bool:
        return (self.total, self.links) < (other.total, other.links)

    def is_worth(self, first: Seconds) -> bool:
        """Whether this cost justifies a program other than the user's, which costs `first`."""
        weights = DEFAULT.rewriting
        if self.total < weights.worth * first.total:
            return True
        is_work = self.dots <= weights.more_dots * first.dots and self.rows <= weights.more_rows * first.rows
        return is_work and self.links < weights.worth * first.links

    def is_shorter(self, first: Seconds) -> bool:
        """Whether fewer latencies justify a plan that may move and repeat more than one that costs `first`."""
        weights = DEFAULT.rewriting
        return self.step < weights.worth * first.step and self.step < first.step - weights.saved_seconds


def planned_seconds(solved: Solved, written: Module, context: Compilation) -> Seconds:
    """Seconds on links of the program after partitioning, and of the work of one device; `written` is the one with the decisions."""
    view = view_of(solved.axes.whole, solved.labels, solved.module.mesh)
    work = {site: view.work(site) for site in solved.sites if site.node.op not in CHOOSING}
    dots = sum(seconds for site, seconds in work.items() if site.node.op in CONTRACTIONS)
    links, latencies = link_seconds(_local(written, context))
    return Seconds(links, dots, sum(work.values()) - dots, latencies)


def step_seconds(written: Module, context: Compilation) -> float:
    """The predicted step of a program with decisions, for the default target or the machine's device, without chunks.

    Infinite for a program that cannot be scheduled.
    """
    local = _local(written, context)
    try:
        return Planner(*predicted_on(DEFAULT_TARGET, None, local.mesh), context).candidate(local).plan().step_seconds
    except CodegenError:
        return math.inf


def _local(written: Module, context: Compilation) -> Module:
    sharded = optimized(materialized(alone(written), context), context)
    return partitioned(sharded, "local", context)


def link_seconds(local: Module) -> tuple[float, float]:
    """Seconds of a local program's bytes on links, and of the latencies of its collectives."""
    moving = [record for record in volume_of(local).collectives if record.ring_bytes]
    rates = [_rate(record, local.mesh) for record in moving]
    links = sum(record.ring_bytes * record.times / rate.bandwidth for record, rate in zip(moving, rates, strict=True))
    return links, sum(record.times * rate.latency for record, rate in zip(moving, rates, strict=True))


def _rate(record: CollectiveRecord, mesh: Mesh) -> Rate:
    return rate_along(mesh, record.axes) if record.axes else rate_between(mesh)  # along no axis it goes to another mesh
