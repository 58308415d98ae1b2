"""What a solved program costs once it is planned to the end: equal programs, and ways to cut axes, are compared by it.

The estimates of single axes do not add up to that where axes are cut in different ways: two halves of an axis reduce
in two steps on paper and in one in the plan. Latencies are left out, as in propagation: bytes decide.
"""

from __future__ import annotations

from dataclasses import dataclass

from meshgen.cost_model.model import DEFAULT
from meshgen.mesh import Mesh
from meshgen.pass_manager import PassManager
from meshgen.sharding.analyze import CollectiveRecord, analyze
from meshgen.sharding.materialize import materialize
from meshgen.sharding.multi_mesh.crossings import alone
from meshgen.sharding.optimize import optimize, optimize_local
from meshgen.sharding.partition import partition
from meshgen.sharding.propagation.annotate import annotated
from meshgen.sharding.propagation.axes import view_of
from meshgen.sharding.propagation.solve import Solved

CHOOSING = ("concatenate", "select")  # whose work is left out: rows are chosen by masks in either, and fused away


@dataclass(frozen=True)
class Seconds:
    """Time on links, and of one device's work: of its dots, and of all else."""

    links: float
    dots: float
    rows: float

    @property
    def total(self) -> float:
        return self.links + self.dots + self.rows

    def __lt__(self, other: Seconds) -> bool:
        return (self.total, self.links) < (other.total, other.links)

    def is_worth(self, first: Seconds) -> bool:
        """Whether to leave the user's program, which takes `first`, for one that takes this."""
        weights = DEFAULT.rewriting
        if self.total < weights.worth * first.total:
            return True
        is_work = self.dots <= weights.more_dots * first.dots and self.rows <= weights.more_rows * first.rows
        return is_work and self.links < weights.worth * first.links


def planned_seconds(solved: Solved, manager: PassManager) -> Seconds:
    """Time on links of the program once it is planned to the end of partition, and of the work of one device."""
    view = view_of(solved.sites, solved.decisions, solved.module)
    work = {site: view.work(site) for site in solved.sites if site.node.op not in CHOOSING}
    dots = sum(seconds for site, seconds in work.items() if site.node.op == "dot_general")
    sharded = optimize(materialize(alone(annotated(solved))), manager)
    local = optimize_local(partition(sharded), manager)
    links = sum(_seconds(record, module_mesh=local.mesh) for record in analyze(local).collectives)
    return Seconds(links, dots, sum(work.values()) - dots)


def _seconds(record: CollectiveRecord, module_mesh: Mesh) -> float:
    if not record.ring_bytes:
        return 0.0
    links = (module_mesh.axis(axis).bandwidth for axis in record.axes)
    leaving = DEFAULT.links.network_bytes_per_second  # where it runs along no axis it leaves the mesh
    return record.ring_bytes * record.times / min(links, default=leaving)
