"""Candidate changes that annotate a redundantly computed value as split over the mesh axes whose devices repeat its
computation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from meshgen.codegen.roofline.kernel_time import device_of, memory_seconds
from meshgen.codegen.targets import predicted_on
from meshgen.mesh import Mesh
from meshgen.ops.classes import CONTRACTIONS
from meshgen.ops.precision import multiplied_as
from meshgen.reports.annotation_changes import Change, annotation, split_along, split_further
from meshgen.reports.gathers import gathers
from meshgen.reports.interface import Compiled, numbered_parts
from meshgen.reports.repeated import Repeated, repeated_work
from meshgen.reports.what_if import values_by_id
from meshgen.spec import Sharding

# chosen: number of groups of equal ops for which changes are proposed, those with the largest possible saving first
GROUPS = 6
SPLITS = 3  # chosen: number of shardings proposed per group, those that split the largest dims first


def splits(executable: Compiled, numbers: Sequence[int] | None) -> Iterator[Change]:
    """Yield changes that annotate the results of redundantly computed ops as sharded.

    The possible saving is the time of the redundant work and of the gathers of its operands. Equal ops, such as those
    of repeated layers, are annotated together.

    Args:
        numbers: indices of gathers; only ops whose operands they gather are proposed. None for all ops.
    """
    module = executable.stages["import"]
    entered = values_by_id(module.graph)
    for part, first in numbered_parts(executable):
        gathered = _gather_seconds_by_value(part, None if numbers is None else {index - first for index in numbers})
        by_seconds = [(_possible_saving(repeated, part, gathered), repeated) for repeated in repeated_work(part)]
        requested = [pair for pair in by_seconds if numbers is None or _result_ids(pair[1]) & gathered.keys()]
        for seconds, repeated in sorted(requested, key=lambda pair: -pair[0])[:GROUPS]:
            values = [entered[id] for id in sorted(_result_ids(repeated)) if id in entered]
            for sharding in _candidate_shardings(repeated, part.mesh):
                on_mesh = replace(sharding, mesh=part.mesh.name) if len(executable.parts) > 1 else sharding
                if values:
                    yield annotation(module, values, on_mesh, group=str(values[0].id), seconds=seconds)


def _gather_seconds_by_value(part: Compiled, numbers: set[int] | None) -> dict[int, float]:
    """Map the id of each value to the total seconds of the gathers of operands from which it is computed.

    Args:
        numbers: indices of the gathers to add up; None for all.
    """
    seconds_by_id: dict[int, float] = {}
    for gather in gathers(part):
        for value in gather.edge.users if numbers is None or numbers & {*gather.numbers} else ():
            seconds_by_id[value.id] = seconds_by_id.get(value.id, 0.0) + gather.seconds
    return seconds_by_id


def _result_ids(repeated: Repeated) -> set[int]:
    return {node.results[0].id for node in repeated.nodes}


def _possible_saving(repeated: Repeated, part: Compiled, gathered: dict[int, float]) -> float:
    """Return the seconds that sharding the op could save at most: its redundant work, and the gathers of its
    operands.
    """
    device, node = device_of(predicted_on(part.options.target, None, part.mesh)[0]), repeated.nodes[0]
    is_contraction = node.op in CONTRACTIONS
    rate = device.peaks.get(multiplied_as(node), device.vector_flops) if is_contraction else device.vector_flops
    value = repeated.value
    shape = value.sharding.local_shape(value.type.sizes, part.mesh) if value.sharding else value.type.sizes
    redundant_bytes = value.type.with_shape(shape).nbytes * len(repeated.nodes) * (1 - 1 / repeated.devices)
    work = max(repeated.wasted / rate, memory_seconds(int(redundant_bytes), device))
    return work + sum(gathered.get(id, 0.0) for id in _result_ids(repeated))


def _candidate_shardings(repeated: Repeated, mesh: Mesh) -> list[Sharding]:
    """Return shardings of the redundant value that also use its idle mesh axes, ordered by the local size of the split
    dims.

    All idle axes go to one dim, or two idle axes go to two dims.
    """
    axes, (sharding, tiles) = repeated.axes, split_along(repeated.value, mesh)
    dims = [dim for dim, size in tiles.items() if size > 1]
    splits_by_dim = [{dim: axes} for dim in dims if tiles[dim] >= repeated.devices]
    if len(axes) == 2:
        splits_by_dim[1:1] = [{a: axes[:1], b: axes[1:]} for a in dims[:2] for b in dims[:2] if a != b]
    return [split_further(sharding, axes_by_dim) for axes_by_dim in splits_by_dim[:SPLITS]]
