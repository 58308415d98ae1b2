"""Sharded values that are gathered for a use though no annotation asks for them whole: what `strict` refuses."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple, TypeAlias

from meshgen.axis_refs import parts_left
from meshgen.errors import Diagnostic, Location, ShardingError, place_text
from meshgen.ir.graph import Graph, Value
from meshgen.ir.predicates import is_annotation
from meshgen.ir.regions import all_nodes
from meshgen.mesh import Mesh, overlaps
from meshgen.reports.comms import total_of
from meshgen.reports.edges import Edge, edges_of
from meshgen.reports.interface import Compiled, numbered_parts
from meshgen.reports.tables import bytes_text, seconds_text, table_of
from meshgen.sharding.propagation.sites import annotation_of
from meshgen.spec import Sharding

GATHERING = ("all_gather", "retile")  # an all-to-all, which exchanges one split dim for another, does not count
Strict = bool | Sequence[str | int]  # everywhere, or for values by name and for lines

MOST_ADVISED = 4  # refused gathers, those that move most, for which the best change is searched


class Gather(NamedTuple):
    """An edge over which a value becomes whole along `axes`; bytes per device and step, time on idle links."""

    value: str
    user: str
    axes: tuple[str, ...]
    source: str
    target: str
    ring_bytes: int
    seconds: float
    made: Location | None
    used: Location | None
    numbers: tuple[int, ...]  # of the collectives
    edge: Edge

    def record(self) -> dict[str, Any]:
        """For `--json`."""
        places = {"made": self.made and asdict(self.made), "used": self.used and asdict(self.used)}
        return {name: getattr(self, name) for name in self._fields if name not in (*places, "edge")} | places


_Asked: TypeAlias = dict[int, list[Sharding]]  # per value, by its id


def gathers(executable: Compiled) -> list[Gather]:
    """The gathers that nothing asks for, those of each mesh that move most first. Empty if the program was written with its collectives."""
    return [gather for part in executable.parts for gather in _gathers(part)]


def _gathers(executable: Compiled) -> list[Gather]:
    if (entered := executable.stages.get("import")) is None:
        return []
    asked: _Asked = {}
    for value, sharding in _wholes(entered.graph):
        asked.setdefault(value.id, []).append(sharding)
    found = [_gather(number, edge, executable, asked) for number, edge in edges_of(executable).items()]
    return sorted((each for each in found if each), key=lambda each: (-each.ring_bytes, each.numbers))


def _gather(number: int, edge: Edge, executable: Compiled, asked: _Asked) -> Gather | None:
    rows = [(at, row) for at, row in enumerate(executable.comms) if number in row.edges and row.kind in GATHERING]
    axes = _lost(edge.source, edge.target, executable.mesh)
    axes = tuple(axis for axis in axes if not any(_is_whole(each, axis) for each in asked.get(edge.value.id, ())))
    if not rows or not axes or not edge.users:  # an unused value is an output: its sharding is annotated or chosen
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
        tuple(at for at, _ in rows),
        edge,
    )


def _lost(source: Sharding, target: Sharding, mesh: Mesh) -> tuple[str, ...]:
    """Axes, or parts of them, of more than one device that split the source and are unused in the target."""
    sizes = {axis: mesh.axis_size(axis) for axis in source.split_axes}
    used = target.used_axes
    return tuple(part for axis, size in sizes.items() if size > 1 for part in parts_left(axis, size, used))


def _wholes(graph: Graph) -> Iterator[tuple[Value, Sharding]]:
    """What required annotations inside the program ask of values."""
    for node in all_nodes(graph):
        annotation = annotation_of(node) if is_annotation(node) else None
        if annotation and annotation.required:
            yield node.operands[0], annotation.sharding


def _is_whole(sharding: Sharding, axis: str) -> bool:
    return not any(overlaps(axis, used) for used in sharding.used_axes)


def refuse_gathers(executable: Compiled, strict: Strict, best: Callable[[Sequence[int]], str]) -> None:
    """Raises ShardingError MG0210 for all gathers that nothing asks for, or for those of some values and lines.

    Raises UsageError MG0001 for unknown values and lines.

    Args:
        best: from numbers of collectives to the change that saves the most, as a hint; empty if none does.
    """
    from meshgen.reports.values import parts_about

    for each in () if isinstance(strict, bool) else strict:
        parts_about(executable, each)  # a typo must not make it less strict
    found = [
        (gather, part, first)
        for part, first in numbered_parts(executable)
        for gather in gathers(part)
        if strict is True or _concerns(gather, strict if isinstance(strict, Sequence) else ())
    ]
    if strict and found:
        hints = [best([n + start for n in gather.numbers]) for gather, _, start in found[:MOST_ADVISED]]
        hints += [""] * (len(found) - len(hints))
        raise ShardingError(
            *(_unasked_gather(gather, part, hint) for (gather, part, _), hint in zip(found, hints, strict=True))
        )


def _concerns(gather: Gather, what: Sequence[str | int]) -> bool:
    names = {gather.value, gather.user}
    lines = {place.line for place in (gather.made, gather.used) if place}
    return any(each in lines if isinstance(each, int) else each.lstrip("%") in names for each in what)


def _unasked_gather(gather: Gather, executable: Compiled, best: str) -> Diagnostic:
    """The fault, with the annotations that made both sides, and the best change."""
    from meshgen.reports.values import chains_to

    values = (gather.edge.value, *gather.edge.users)
    chains = [found for axis in gather.axes for found in chains_to(executable, values, (axis,))]
    notes = [(f"{name}: {chain.axis} {chain.state}, from {chain.annotation}", None) for name, chain in chains]
    name = f"%{gather.value}" if gather.value else "the value"
    message = (
        f"{name} has sharding {gather.source}, but is needed as {gather.target} for "
        f"{f'%{gather.user}' if gather.user else 'its use'}: gathering it over {', '.join(gather.axes)} moves "
        f"{bytes_text(gather.ring_bytes)} per device ({seconds_text(gather.seconds)}), and no annotation asks for it"
    )
    change = best or "no single annotation that leads to it saves bytes when dropped"
    hint = f"{change}; if the gather is meant, annotate {name} as {gather.target} for its users"
    return Diagnostic("MG0210", message, gather.used, tuple(dict.fromkeys(notes)), hint)


def gathers_table(found: Sequence[Gather], first: int = 0, most: int = 12) -> Any:
    """The largest gathers as a table; collectives are numbered from `first` on."""
    rows = [
        (f"%{g.value}" if g.value else "", g.source, g.target, f"%{g.user}" if g.user else "", bytes_text(g.ring_bytes), ", ".join(f"#{n + first}" for n in g.numbers[:3]), place_text(g.used))
        for g in found[:most]
    ]  # fmt: skip
    total = bytes_text(sum(gather.ring_bytes for gather in found))
    title = f"Gathered though no annotation asks for it (--strict refuses them): {len(found)}, {total}"
    columns = ("value", "sharding", "needed as", "for", "moved", "collective", "at")
    return table_of(title, columns, rows, left=("sharding", "needed as", "for", "collective", "at"))


def gather_records(executable: Compiled) -> list[Mapping[str, Any]]:
    """For `--json`: those of all meshes."""
    several = len(executable.parts) > 1
    return [
        gather.record() | ({"mesh": part.mesh.name} if several else {})
        for part in executable.parts
        for gather in gathers(part)
    ]
