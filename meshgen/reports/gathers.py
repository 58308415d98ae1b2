"""Find sharded values that are gathered for a user although no annotation requires it. Option `strict` refuses such
gathers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, TypeAlias

from meshgen.axis_refs import uncovered_parts
from meshgen.errors import Diagnostic, Location, ShardingError, location_text
from meshgen.ir.graph import Graph, Value
from meshgen.ir.predicates import is_annotation
from meshgen.ir.regions import all_nodes
from meshgen.mesh import Mesh, overlaps
from meshgen.reports.comms import total_of
from meshgen.reports.interface import Compiled, numbered_parts
from meshgen.reports.reshard_edges import Edge, edges_of
from meshgen.reports.tables import bytes_text, seconds_text, table_of
from meshgen.sharding.propagation.sites import annotation_of
from meshgen.spec import Sharding

# kinds that gather; an all_to_all is not one of them: it moves the split from one dim to another
GATHERING = ("all_gather", "retile")
# True: refuse gathers of all values; a sequence: only of the values with these names or source lines
Strict = bool | Sequence[str | int]

# chosen: number of refused gathers for which the best change is searched, those that move the most bytes
MOST_ADVISED = 4


class Gather(NamedTuple):
    """A reshard that removes `axes` from the sharding of a value.

    Bytes are per device and step. Seconds assume that no other collective uses the links.
    """

    value: str
    user: str
    axes: tuple[str, ...]
    source: str
    target: str
    ring_bytes: int
    seconds: float
    made: Location | None
    used: Location | None
    numbers: tuple[int, ...]  # indices of the gather's collectives
    edge: Edge

    def record(self) -> dict[str, Any]:
        """Return the fields as a JSON-serializable dict, for `--json`."""
        places = {"made": self.made and asdict(self.made), "used": self.used and asdict(self.used)}
        return {name: getattr(self, name) for name in self._fields if name not in (*places, "edge")} | places


_Asked: TypeAlias = dict[int, list[Sharding]]  # shardings that annotations require, by the id of the value


def gathers(executable: Compiled) -> list[Gather]:
    """Return the gathers that no annotation requires, mesh by mesh, ordered by the bytes moved.

    The list is empty for a program in which the user wrote the collectives.
    """
    return [gather for part in executable.parts for gather in _gathers(part)]


def _gathers(executable: Compiled) -> list[Gather]:
    if (entered := executable.stages.get("import")) is None:
        return []
    required: _Asked = {}
    for value, sharding in _required_shardings(entered.graph):
        required.setdefault(value.id, []).append(sharding)
    candidates = [
        _gather(edge_number, edge, executable, required) for edge_number, edge in edges_of(executable).items()
    ]
    return sorted((gather for gather in candidates if gather), key=lambda gather: (-gather.ring_bytes, gather.numbers))


def _gather(edge_number: int, edge: Edge, executable: Compiled, required: _Asked) -> Gather | None:
    rows = [
        (index, row) for index, row in enumerate(executable.comms) if edge_number in row.edges and row.kind in GATHERING
    ]
    axes = _gathered_axes(edge.source, edge.target, executable.mesh)
    axes = tuple(
        axis for axis in axes if not any(_is_whole(sharding, axis) for sharding in required.get(edge.value.id, ()))
    )
    # a value without users is an output, whose sharding is annotated or chosen
    if not rows or not axes or not edge.users:
        return None
    total = total_of(row for _, row in rows)
    return Gather(
        edge.value.name,
        edge.users[0].name,
        axes,
        str(edge.source),
        str(edge.target),
        total.ring_bytes,
        total.seconds,
        edge.value.loc or next(reversed(edge.places), None),
        next(iter(edge.places), None),
        tuple(index for index, _ in rows),
        edge,
    )


def _gathered_axes(source: Sharding, target: Sharding, mesh: Mesh) -> tuple[str, ...]:
    """Return the axes or subaxes of size above 1 that split the value in `source` but not in `target`."""
    sizes = {axis: mesh.axis_size(axis) for axis in source.split_axes}
    used_after = target.used_axes
    return tuple(part for axis, size in sizes.items() if size > 1 for part in uncovered_parts(axis, size, used_after))


def _required_shardings(graph: Graph) -> Iterator[tuple[Value, Sharding]]:
    """Map the id of each value that has a required annotation inside the program to the required shardings."""
    for node in all_nodes(graph):
        annotation = annotation_of(node) if is_annotation(node) else None
        if annotation and annotation.required:
            yield node.operands[0], annotation.sharding


def _is_whole(sharding: Sharding, axis: str) -> bool:
    return not any(overlaps(axis, used) for used in sharding.used_axes)


def refuse_gathers(executable: Compiled, strict: Strict, best: Callable[[Sequence[int]], str]) -> None:
    """Raise an error if a value is gathered although no annotation requires it. `strict` may limit the check to some
    values.

    Args:
        best: returns a hint with the most profitable change for the collectives with the passed indices, or "" without
            one.
    Raises:
        ShardingError: MG0210, one diagnostic per gather.
        UsageError: MG0001 for an unknown value name or line in `strict`.
    """
    from meshgen.reports.value_reasons import parts_about

    for value_or_line in () if isinstance(strict, bool) else strict:
        parts_about(executable, value_or_line)  # raises for an unknown name, so that a typo does not disable the check
    refused = [
        (gather, part, first)
        for part, first in numbered_parts(executable)
        for gather in gathers(part)
        if strict is True or _concerns(gather, strict if isinstance(strict, Sequence) else ())
    ]
    if strict and refused:
        hints = [best([n + start for n in gather.numbers]) for gather, _, start in refused[:MOST_ADVISED]]
        hints += [""] * (len(refused) - len(hints))
        raise ShardingError(
            *(_unasked_gather(gather, part, hint) for (gather, part, _), hint in zip(refused, hints, strict=True))
        )


def _concerns(gather: Gather, selected: Sequence[str | int]) -> bool:
    names = {gather.value, gather.user}
    lines = {place.line for place in (gather.made, gather.used) if place}
    return any(
        value_or_line in lines if isinstance(value_or_line, int) else value_or_line.lstrip("%") in names
        for value_or_line in selected
    )


def _unasked_gather(gather: Gather, executable: Compiled, best_change_hint: str) -> Diagnostic:
    """Return the diagnostic for a refused gather. It has notes on the annotations that caused both shardings, and the
    hint.
    """
    from meshgen.reports.value_reasons import chains_to

    values = (gather.edge.value, *gather.edge.users)
    chains = [value_chain for axis in gather.axes for value_chain in chains_to(executable, values, (axis,))]
    notes = [(f"{name}: {chain.axis} {chain.state}, from {chain.annotation}", None) for name, chain in chains]
    name = f"%{gather.value}" if gather.value else "the value"
    message = (
        f"{name} has sharding {gather.source}, but is needed as {gather.target} for "
        f"{f'%{gather.user}' if gather.user else 'its use'}: gathering it over {', '.join(gather.axes)} moves "
        f"{bytes_text(gather.ring_bytes)} per device ({seconds_text(gather.seconds)}), and no annotation requires it"
    )
    change = best_change_hint or "no single annotation that leads to it saves bytes when dropped"
    hint = f"{change}; if the gather is meant, annotate {name} as {gather.target} for its users"
    return Diagnostic("MG0210", message, gather.used, tuple(dict.fromkeys(notes)), hint)


def gathers_table(unrequested: Sequence[Gather], first: int = 0, most: int = 12) -> Any:
    """Return a table of the `most` largest gathers. Collectives are numbered from `first` on."""
    rows = [
        (f"%{g.value}" if g.value else "", g.source, g.target, f"%{g.user}" if g.user else "", bytes_text(g.ring_bytes), ", ".join(f"#{n + first}" for n in g.numbers[:3]), location_text(g.used))
        for g in unrequested[:most]
    ]  # fmt: skip
    total = bytes_text(sum(gather.ring_bytes for gather in unrequested))
    title = f"Gathered although no annotation requires it (--strict refuses them): {len(unrequested)}, {total}"
    columns = ("value", "sharding", "needed as", "for", "moved", "collective", "at")
    return table_of(title, columns, rows, left=("sharding", "needed as", "for", "collective", "at"))


def gather_records(executable: Compiled) -> list[Mapping[str, Any]]:
    """Return the gathers of all meshes, for `--json`."""
    several = len(executable.parts) > 1
    return [
        gather.record() | ({"mesh": part.mesh.name} if several else {})
        for part in executable.parts
        for gather in gathers(part)
    ]
