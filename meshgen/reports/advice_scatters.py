"""Candidate changes that shard the users of an all_reduce over its mesh axes, so that a device needs only a shard of
the sum.

    add %x, (all_reduce %d over tp)     annotated as split over tp: a reduce_scatter, and an all_gather where all rows
    are needed

Between the two collectives, work on rows is divided among the devices instead of repeated ("sequence parallelism").
Both collectives together move as many bytes as the all-reduce. Planning the program with the annotation decides whether
the change is profitable.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from meshgen.ir.graph import Module, Value
from meshgen.mesh import Mesh
from meshgen.reports.annotation_changes import Change, annotation, split_along, split_further
from meshgen.reports.causes import Group, groups_of
from meshgen.reports.collectives import ReshardingCollective, served
from meshgen.reports.interface import Compiled
from meshgen.reports.what_if import values_by_id
from meshgen.spec import Sharding

# chosen: number of all-reduce groups for which changes are proposed, those with the longest exposed time first
GROUPS = 4
DIMS = 2  # chosen: number of dims of a value for which a split is proposed, those with the largest local size first


def scatters(executable: Compiled, numbers: Sequence[int] | None) -> Iterator[Change]:
    """Yield changes that annotate the first users of an all_reduce as sharded.

    All-reduces with the same cause form a group. The possible saving of a change is the exposed time of the group.

    Args:
        numbers: indices of the all-reduces; None for all.
    """
    requested = None if numbers is None else {*numbers}
    sum_groups = [group for group in groups_of(executable) if group.kind == "all_reduce" and group.reduction == "sum"]
    sum_groups = [group for group in sum_groups if requested is None or requested & {*group.numbers}]
    module, collectives = executable.stages["import"], served(executable)
    entered = values_by_id(module.graph)
    for part in executable.parts:
        of_part = [group for group in sum_groups if collectives[group.numbers[0]].part is part]
        for group in of_part[:GROUPS]:
            yield from _changes_of_group(module, group, [collectives[index] for index in group.numbers], entered)


def _changes_of_group(
    module: Module, group: Group, sums: Sequence[ReshardingCollective], entered: Mapping[int, Value]
) -> Iterator[Change]:
    """Yield changes that shard the first value computed from the sums: one change for each of the dims with the largest
    local size.
    """
    mesh, has_several_meshes = sums[0].part.mesh, bool(sums[0].mesh)
    first_results = [edge.users[0] for collective in sums for edge in collective.edges if edge.users]
    values = [entered[value.id] for value in dict.fromkeys(first_results) if value.id in entered]
    if not values or first_results[0].sharding is None:
        return
    equal_types = [value for value in values if value.type == values[0].type]
    for sharding in _further_shardings(first_results[0], group.axes, mesh):
        placed = replace(sharding, mesh=mesh.name) if has_several_meshes else sharding
        sums_of = f"sum {equal_types[0].id}"
        yield annotation(
            module, equal_types, placed, group=sums_of, seconds=group.exposed_seconds, unnamed="what reads the sum"
        )


def _further_shardings(value: Value, axes: tuple[str, ...], mesh: Mesh) -> list[Sharding]:
    """Return the shardings that split one more dim of `value` evenly over `axes`, the dim with the largest local size
    first.
    """
    sharding, tiles = split_along(value, mesh)
    if {*axes} & {*sharding.used_axes}:
        return []
    dims = [dim for dim, size in tiles.items() if size % mesh.group_size(axes) == 0]
    return [split_further(sharding, {dim: axes}) for dim in dims[:DIMS]]
