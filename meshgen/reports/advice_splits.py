"""Splits of what devices repeat: what if a value were annotated so that the axes along which it is computed alike split it?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from meshgen.codegen.roofline.kernel_time import device_of, memory_seconds
from meshgen.codegen.targets import predicted_on
from meshgen.mesh import Mesh
from meshgen.ops.classes import CONTRACTIONS
from meshgen.ops.precision import multiplied_as
from meshgen.reports.changes import Change, annotation, split_along, split_further
from meshgen.reports.gathers import gathers
from meshgen.reports.interface import Compiled, numbered_parts
from meshgen.reports.repeated import Repeated, repeated_work
from meshgen.reports.what_if import values_by_id
from meshgen.spec import Sharding

GROUPS = 6  # of ops alike that are tried, those that could save the most
SPLITS = 3  # ways to split each that are tried, its largest dims first


def splits(executable: Compiled, numbers: Sequence[int] | None) -> Iterator[Change]:
    """Annotations of what ops make whose work is repeated, with the time of this work and of the gathers for it.

    Ops that are alike, as those of repeated layers, are annotated together. With `numbers` of collectives only those
    ops that they gather for.
    """
    module = executable.stages["import"]
    entered = values_by_id(module.graph)
    for part, first in numbered_parts(executable):
        gathered = _gather_seconds_by_value(part, None if numbers is None else {number - first for number in numbers})
        found = [(_seconds(each, part, gathered), each) for each in repeated_work(part)]
        asked = [pair for pair in found if numbers is None or _ids(pair[1]) & gathered.keys()]
        for seconds, each in sorted(asked, key=lambda pair: -pair[0])[:GROUPS]:
            values = [entered[id] for id in sorted(_ids(each)) if id in entered]
            for sharding in _shardings(each, part.mesh):
                placed = replace(sharding, mesh=part.mesh.name) if len(executable.parts) > 1 else sharding
                if values:
                    yield annotation(module, values, placed, group=str(values[0].id), seconds=seconds)


def _gather_seconds_by_value(part: Compiled, numbers: set[int] | None) -> dict[int, float]:
    """By the id of a value that values are gathered for, the seconds that this takes; by these collectives only."""
    found: dict[int, float] = {}
    for gather in gathers(part):
        for value in gather.edge.users if numbers is None or numbers & {*gather.numbers} else ():
            found[value.id] = found.get(value.id, 0.0) + gather.seconds
    return found


def _ids(repeated: Repeated) -> set[int]:
    return {node.results[0].id for node in repeated.nodes}


def _seconds(repeated: Repeated, part: Compiled, gathered: dict[int, float]) -> float:
    """Time that a step could save: that of the repeated work, and of the gathers for it."""
    device, node = device_of(predicted_on(part.options.target, None, part.mesh)[0]), repeated.nodes[0]
    is_product = node.op in CONTRACTIONS
    rate = device.peaks.get(multiplied_as(node), device.vector_flops) if is_product else device.vector_flops
    made = repeated.value
    shape = made.sharding.local_shape(made.type.sizes, part.mesh) if made.sharding else made.type.sizes
    wasted = made.type.with_shape(shape).nbytes * len(repeated.nodes) * (1 - 1 / repeated.devices)
    work = max(repeated.wasted / rate, memory_seconds(int(wasted), device))
    return work + sum(gathered.get(id, 0.0) for id in _ids(repeated))


def _shardings(repeated: Repeated, mesh: Mesh) -> list[Sharding]:
    """The sharding of the value with the idle axes on one dim more or, two of them, on two; on dims with the largest tiles first."""
    axes, (now, tiles) = repeated.axes, split_along(repeated.value, mesh)
    dims = [dim for dim, size in tiles.items() if size > 1]
    ways = [{dim: axes} for dim in dims if tiles[dim] >= repeated.devices]
    if len(axes) == 2:
        ways[1:1] = [{a: axes[:1], b: axes[1:]} for a in dims[:2] for b in dims[:2] if a != b]
    return [split_further(now, way) for way in ways[:SPLITS]]
