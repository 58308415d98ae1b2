"""Why a collective is there: the edges that it serves, the annotations that its axes come from, and the alternatives.

The edges are those of stage `materialize` whose numbers it carries.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.ir.graph import Value
from meshgen.mesh import overlaps
from meshgen.reports.comms import Collective, collective_record
from meshgen.reports.edges import Edge, edges_of
from meshgen.reports.interface import Compiled, numbered_parts
from meshgen.reports.tables import bytes_text, seconds_text
from meshgen.reports.values import chain_record, chains_to, link_parts, solved_of
from meshgen.sharding.propagation.chains import Chain
from meshgen.sharding.propagation.pseudo_ops import PSEUDO_OPS
from meshgen.sharding.propagation.rejected import rejected
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.reshard.plan import other_plans

SHOWN_REJECTED = 6  # of a collective in text


@dataclass(frozen=True)
class Served:
    """A collective of a step, the edges that it serves, and the program of the mesh that runs it.

    Attributes:
        number: in the order in which collectives run, through all meshes.
        mesh: the name of the mesh; empty in a program on one.
    """

    number: int
    mesh: str
    row: Collective
    edges: tuple[Edge, ...]
    part: Compiled

    def chains(self, *values: Value) -> list[tuple[str, Chain]]:
        """The chains that lead to the axes of the collective on some values, each with the name of its value."""
        return chains_to(self.part, values, self.row.axes)

    def sites(self) -> list[Site]:
        """The operations that propagation saw on the lines that it comes from or serves."""
        lines = {place.line for edge in self.edges for place in edge.places} or {self.row.line}
        solved = solved_of(self.part)
        sites = (site for site in (solved.sites if solved else ()) if site.node.op not in PSEUDO_OPS)
        return [site for site in sites if site.node.loc and site.node.loc.line in lines]

    def values(self) -> list[Value]:
        """The values of its edges; of a collective that serves none the operands of the operations on its line."""
        return [edge.value for edge in self.edges] or [value for site in self.sites() for value in site.node.operands]

    @property
    def scope(self) -> tuple[str, bool]:
        """The user's name of the part of the program that it belongs to, and whether that is its backward pass."""
        scopes = (place.scope for edge in self.edges for place in edge.places[::-1] if place.scope)
        return plain_scope(next(scopes, self.row.source.partition(" in ")[2]))

    def is_about(self, what: str | int) -> bool:
        """Whether it moves a value or an operand of its producer, or comes from a line or scope or serves an op there."""
        places = [place for edge in self.edges for place in edge.places]
        if isinstance(what, int):
            return what == self.row.line or any(place.line == what for place in places)
        is_in = any(f"{place.scope}/".startswith(f"{what}/") for place in places if place.scope)
        moved = (value for edge in self.edges for value in (edge.value, *edge.users))
        return is_in or any(value.name == what.lstrip("%") for value in moved)


def served(executable: Compiled) -> list[Served]:
    """The collectives of a step, of all meshes."""
    several = len(executable.parts) > 1
    if several:
        link_parts(executable.parts)
    found: list[Served] = []
    for part, first in numbered_parts(executable):
        edges, mesh = edges_of(part), part.mesh.name if several else ""
        for number, row in enumerate(part.comms, first):
            found.append(Served(number, mesh, row, tuple(edges[n] for n in row.edges if n in edges), part))
    return found


def plain_scope(scope: str) -> tuple[str, bool]:
    """A part of the program without what JAX adds to its name, and whether it is its backward pass."""
    parts = re.sub(r"transpose\(([^()]*)\)", r"\1", scope).removeprefix("transpose").strip("/").split("/")
    is_backward = "transpose" in scope
    return "/".join(part for part in parts if "->" not in part), is_backward  # JAX names an einsum by its subscripts


def explained(each: Served, *, weighed: bool = True) -> dict[str, Any]:
    """A collective with its reasons, as plain values; `weighed`: with the rejected alternatives."""
    row, solved = each.row, solved_of(each.part)
    sites = each.sites() if weighed else ()
    others = dict.fromkeys(other for site in sites if solved for other in rejected(solved, site))
    return collective_record(row) | {
        "number": each.number,
        "edges": [_edge_record(edge, each) for edge in each.edges],
        "chains": [chain_record(*chain) for chain in each.chains(*each.values())],
        "rivals": [
            asdict(other) | {"text": str(other)}
            for other in others
            if any(overlaps(other.axis, axis) for axis in row.axes)
        ],
    }


def _edge_record(edge: Edge, each: Served) -> dict[str, Any]:
    """An edge with the chains of its value and of its users, and the other plans that reshard it."""
    solved = solved_of(each.part)
    mesh = solved.module.mesh if solved else each.part.mesh
    return {
        "value": edge.value.name,
        "source": str(edge.source),
        "target": str(edge.target),
        "why": edge.why,
        "users": [value.name for value in edge.users],
        "chains": [chain_record(*chain) for chain in each.chains(edge.value, *edge.users)],
        "alternatives": [
            {"steps": [step.op for step in plan.steps], "ring_bytes": plan.ring_bytes, "seconds": plan.seconds}
            for plan in other_plans(edge.value.type, edge.source, edge.target, mesh)
        ],
    }


def collective_text(record: dict[str, Any]) -> str:
    """The record as text: what it costs, then each edge that it serves with its chains and other plans."""
    kind = " ".join(filter(None, (record["kind"], record["reduction"])))
    where = f"  at {record['source']}" if record["source"] else ""
    takes = f"{seconds_text(record['seconds'])}, {seconds_text(record['hidden_seconds'])} of it hidden"
    head = f"#{record['number']} {kind}{_way(record)}: {bytes_text(record['ring_bytes'])}, {takes}{where}"
    crossing = _crossing_lines(record["crossing"]) if "crossing" in record else []
    if record["edges"]:
        lines = [line for edge in record["edges"] for line in _edge_lines(edge)]
    else:
        lines = [f"because {record['why']}", *crossing[:1], *_chain_lines(record["chains"]), *crossing[1:]]
    if note := _note(record):
        lines.append(note)
    lines += _rejected_lines(record["rivals"])
    return "\n".join([head, *(f"    {line}" for line in lines)])


def _crossing_lines(record: dict[str, Any]) -> list[str]:
    """Text: what a transfer carries, and between which other shardings it could."""
    lines = [
        f"it is made as {record['made']}, crosses from {record['source']} to {record['target']}, and is used as {record['wanted']}"
    ]
    lines += [
        f"instead: from {way['source']} to {way['target']}: {bytes_text(way['moved'])} with what is moved on both meshes, {seconds_text(way['seconds'])}"
        for way in record["alternatives"]
    ]
    return lines


def _edge_lines(edge: dict[str, Any]) -> list[str]:
    why = edge["why"].partition("; ")[0]  # what follows are the ends of the chains
    ways = [
        f"instead: {', '.join(plan['steps'])}: {bytes_text(plan['ring_bytes'])}, {seconds_text(plan['seconds'])}"
        for plan in edge["alternatives"]
    ]
    return [f"because {why}", *(f"  {line}" for line in (*_chain_lines(edge["chains"]), *ways))]


def _chain_lines(chains: Sequence[dict[str, Any]]) -> Iterator[str]:
    for chain in chains:
        yield f"{chain['value']}: {chain['text'][0]}"
        yield from chain["text"][1:]


def _rejected_lines(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Other choices for the operations at both ends, the nearest to what was chosen first."""
    ordered = sorted(records, key=lambda other: other["seconds_more"])
    yield from (f"instead: {other['text']}" for other in ordered[:SHOWN_REJECTED])
    if len(ordered) > SHOWN_REJECTED:
        yield f"... {len(ordered) - SHOWN_REJECTED} more choices that are not faster ..."


def _note(record: dict[str, Any]) -> str:
    """What a pass noted about the collective, in brackets at the end of its reason (shardings are in brackets too)."""
    _, _, note = record["why"].rpartition("[")
    return note.removesuffix("]") if record["edges"] and note.endswith("]") and "{" not in note else ""


def _way(record: dict[str, Any]) -> str:
    """On which of several meshes, and over which axes or to which other mesh."""
    there = f" on @{record['mesh']}" if "mesh" in record else ""
    if peer := record.get("peer"):
        return f"{there} {'to' if record['kind'] == 'transfer_send' else 'from'} @{peer}"
    return f"{there} over {', '.join(record['axes'])}"
