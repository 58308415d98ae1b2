"""Sums that every device is given whole: what if what reads them were split over the axis, so that each device takes its own part?

    add %x, (all_reduce %d over tp)           annotated as split over tp: reduce_scatter, and a gather where the whole is needed

Between the two, work on whole rows is done once and not by every device ("sequence parallelism"), and both move what the all-reduce
moved. Whether that pays is for the planner to say: the program is planned with the annotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from meshgen.ir.graph import Module, Value
from meshgen.mesh import Mesh
from meshgen.reports.causes import Group, groups_of
from meshgen.reports.changes import Change, annotation, split_along, split_further
from meshgen.reports.collectives import Served, served
from meshgen.reports.interface import Compiled
from meshgen.reports.what_if import values_by_id
from meshgen.spec import Sharding

GROUPS = 4  # causes that are tried, those that the step waits for longest
DIMS = 2  # of a value that are tried, those of most rows first


def scatters(executable: Compiled, numbers: Sequence[int] | None) -> Iterator[Change]:
    """Annotations of what reads the sums of a cause, with the time of these; of some collectives by number, or of all."""
    asked = None if numbers is None else {*numbers}
    found = [group for group in groups_of(executable) if group.kind == "all_reduce" and group.reduction == "sum"]
    found = [group for group in found if asked is None or asked & {*group.numbers}]
    module, collectives = executable.stages["import"], served(executable)
    entered = values_by_id(module.graph)
    for part in executable.parts:
        of_part = [group for group in found if collectives[group.numbers[0]].part is part]
        for group in of_part[:GROUPS]:
            yield from _of_group(module, group, [collectives[number] for number in group.numbers], entered)


def _of_group(module: Module, group: Group, sums: Sequence[Served], entered: Mapping[int, Value]) -> Iterator[Change]:
    """A change for each of the largest dims of what first reads the sums."""
    mesh, several = sums[0].part.mesh, bool(sums[0].mesh)
    read = [edge.users[0] for each in sums for edge in each.edges if edge.users]
    values = [entered[value.id] for value in dict.fromkeys(read) if value.id in entered]
    if not values or read[0].sharding is None:
        return
    same = [value for value in values if value.type == values[0].type]
    for sharding in _split(read[0], group.axes, mesh):
        placed = replace(sharding, mesh=mesh.name) if several else sharding
        sums_of = f"sum {same[0].id}"
        yield annotation(
            module, same, placed, group=sums_of, seconds=group.exposed_seconds, unnamed="what reads the sum"
        )


def _split(value: Value, axes: tuple[str, ...], mesh: Mesh) -> list[Sharding]:
    """The value's sharding with the axes on one more dim, evenly, those of the longest tiles first."""
    now, tiles = split_along(value, mesh)
    if {*axes} & {*now.used_axes}:
        return []
    dims = [dim for dim, size in tiles.items() if size % mesh.group_size(axes) == 0]
    return [split_further(now, {dim: axes}) for dim in dims[:DIMS]]
