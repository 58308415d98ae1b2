"""Sums that every device is given whole: what if what reads them were split over the axis, so that each device takes its own part?

    add %x, (all_reduce %d over tp)           annotated as split over tp: reduce_scatter, and a gather where the whole is needed

Between the two, work on whole rows is done once and not by every device ("sequence parallelism"), and both move what the all-reduce
moved. Whether that pays is for the planner to say: the program is planned with the annotation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial

from meshgen.ir.graph import Value
from meshgen.mesh import Mesh
from meshgen.notation import format_sharding
from meshgen.reports.causes import Group, groups_of
from meshgen.reports.changes import Change
from meshgen.reports.collectives import Edge, edges_of
from meshgen.reports.interface import Compiled
from meshgen.reports.what_if import annotated_values, values_by_id
from meshgen.spec import Sharding

GROUPS = 4  # causes that are tried, those that the step waits for longest
DIMS = 2  # of a value that are tried, those of most rows first


def scatters(executable: Compiled, numbers: Sequence[int] | None) -> Iterator[Change]:
    """Annotations of what reads the sums of a cause, with the time of these; of some collectives by number, or of all."""
    asked = None if numbers is None else {*numbers}
    found = [group for group in groups_of(executable) if group.kind == "all_reduce" and group.reduction == "sum"]
    found = [group for group in found if asked is None or asked & {*group.numbers}]
    entered, first = values_by_id(executable.stages["import"].graph), 0
    for part in executable.parts:
        module = part.stages.get("materialize")
        edges, own = edges_of(module) if module else {}, range(first, first + len(part.comms))
        several = len(executable.parts) > 1
        for group in [each for each in found if each.numbers[0] in own][:GROUPS]:
            yield from _of_group(executable, part, group, [n - first for n in group.numbers], edges, entered, several)
        first += len(part.comms)


def _of_group(
    executable: Compiled, part: Compiled, group: Group, own: Sequence[int], edges: Mapping[int, Edge],
    entered: Mapping[int, Value], several: bool,
) -> Iterator[Change]:  # fmt: skip
    """A change for each of the largest dims of what first reads the sums."""
    mine = [edges[edge] for number in own for edge in part.comms[number].edges if edge in edges]
    read = [edge.users[0] for edge in mine if edge.users]
    values = [entered[value.id] for value in dict.fromkeys(read) if value.id in entered]
    if not values or read[0].sharding is None:
        return
    same = [value for value in values if value.type == values[0].type]
    for sharding in _split(read[0], group.axes, part.mesh):
        placed = replace(sharding, mesh=part.mesh.name) if several else sharding
        spec, name = format_sharding(placed), same[0].name
        text = f"annotate {f'%{name}' if name else 'what reads the sum'}"
        text += f" and {len(same) - 1} more alike" if same[1:] else ""
        program = partial(annotated_values, executable.stages["import"], dict.fromkeys(same, placed))
        then = partial(_told, str(placed), spec)
        yield Change("annotate", f"{text} as {spec}", name, f"sum {same[0].id}", group.exposed_seconds, program, then)


def _told(sharding: str, spec: str, after: Compiled) -> tuple[str, str]:
    del after  # it is annotated so
    return sharding, spec


def _split(value: Value, axes: tuple[str, ...], mesh: Mesh) -> list[Sharding]:
    """The value's sharding with the axes on one more dim, evenly, those of the longest tiles first."""
    assert value.sharding is not None, "values have a sharding after materialize"
    now, count = value.sharding.without_partial(), mesh.group_size(axes)
    if {*axes} & {*now.used_axes}:
        return []
    tiles = now.local_shape(value.type.sizes, mesh)
    dims = sorted((dim for dim in range(now.rank) if tiles[dim] % count == 0), key=lambda dim: -tiles[dim])
    return [Sharding(tuple(used + axes * (dim == each) for dim, used in enumerate(now.dims))) for each in dims[:DIMS]]
