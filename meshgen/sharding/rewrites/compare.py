"""Compute the cost of a solved program planned up to partitioning, by which equivalent programs and cuts of axes are compared.

Example, x=4: `%q = slice (dot %x, %w) [:, 0:32]` with `%x : f32[64,32]{x}`, `%w : f32[32,96]{,x}` exchanges columns of
activations; `dot %x, (slice %w)` exchanges rows of the weight: fewer bytes, and a third of the work of the dot.

The estimates along single axes do not add up to this if axes are cut in different ways: two halves of an axis reduce
in two steps in the estimates and in one in the plan. Latencies are left out, as in propagation: bytes decide.
"""

from __future__ import annotations

from meshgen.ccl.links import rate_along, rate_between
from meshgen.cost_model.model import DEFAULT
from meshgen.mesh import Mesh
from meshgen.ops.classes import DOTS
from meshgen.pass_manager import PassManager
from meshgen.records import dataclass
from meshgen.sharding.analyze import CollectiveRecord, analyze
from meshgen.sharding.materialize import materialize
from meshgen.sharding.multi_mesh.crossings import alone
from meshgen.sharding.optimize import optimize, optimize_local
from meshgen.sharding.partition import partition
from meshgen.sharding.propagation.annotate import annotated
from meshgen.sharding.propagation.axes import view_of
from meshgen.sharding.propagation.solve import Solved

CHOOSING = ("concatenate", "select")  # their work is left out: masks are fused away


@dataclass(frozen=True)
class Seconds:
    """Seconds on links, and of one device's work: of dots, and of all other ops."""

    links: float
    dots: float
    rows: float

    @property
    def total(self) -> float:
        return self.links + self.dots + self.rows

    def __lt__(self, other: Seconds) -> bool:
        return (self.total, self.links) < (other.total, other.links)

    def is_worth(self, first: Seconds) -> bool:
        """Whether this cost justifies a program other than the user's, which costs `first`."""
        weights = DEFAULT.rewriting
        if self.total < weights.worth * first.total:
            return True
        is_work = self.dots <= weights.more_dots * first.dots and self.rows <= weights.more_rows * first.rows
        return is_work and self.links < weights.worth * first.links


def planned_seconds(solved: Solved, manager: PassManager) -> Seconds:
    """Seconds on links of the program after partitioning, and of the work of one device."""
    view = view_of(solved.sites, solved.decisions, solved.module)
    work = {site: view.work(site) for site in solved.sites if site.node.op not in CHOOSING}
    dots = sum(seconds for site, seconds in work.items() if site.node.op in DOTS)
    sharded = optimize(materialize(alone(annotated(solved))), manager)
    local = optimize_local(partition(sharded), manager)
    links = sum(_seconds(record, module_mesh=local.mesh) for record in analyze(local).collectives)
    return Seconds(links, dots, sum(work.values()) - dots)


def _seconds(record: CollectiveRecord, module_mesh: Mesh) -> float:
    if not record.ring_bytes:
        return 0.0
    rate = rate_along(module_mesh, record.axes) if record.axes else rate_between(module_mesh)
    return record.ring_bytes * record.times / rate.bandwidth
