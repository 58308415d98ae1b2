"""What a solved program costs once it is planned to the end: equal programs, and ways to cut axes, are compared by it.

The estimates of single axes do not add up to that where axes are cut in different ways: two halves of an axis reduce
in two steps on paper and in one in the plan. Latencies are left out, as in propagation: bytes decide.
"""

from __future__ import annotations

from meshgen.ir.graph import Module
from meshgen.mesh import NETWORK_BYTES_PER_SECOND, Mesh
from meshgen.sharding.analyze import CollectiveRecord, analyze
from meshgen.sharding.crossings import alone
from meshgen.sharding.materialize import materialize
from meshgen.sharding.optimize import optimize, optimize_local
from meshgen.sharding.partition import partition


def planned_seconds(propagated: Module) -> float:
    """Time on the links of all collectives of a program (stage propagate) at the end of partition."""
    local = optimize_local(partition(optimize(materialize(alone(propagated)))))
    return sum(_seconds(record, module_mesh=local.mesh) for record in analyze(local).collectives)


def _seconds(record: CollectiveRecord, module_mesh: Mesh) -> float:
    if not record.ring_bytes:
        return 0.0
    links = (module_mesh.axis(axis).bandwidth for axis in record.axes)
    return record.ring_bytes * record.times / min(links, default=NETWORK_BYTES_PER_SECOND)  # else it leaves the mesh
