"""Explain a collective: the values that it reshards, the annotations that caused their shardings, and the alternatives.

A reshard edge connects a value to the uses that need it with another sharding. Each collective stores the numbers of
its reshard edges in the program of stage `materialize`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from meshgen.ir.graph import Value
from meshgen.mesh import overlaps
from meshgen.reports.comms import Collective, collective_record
from meshgen.reports.interface import Compiled, numbered_parts
from meshgen.reports.reshard_edges import Edge, edges_of
from meshgen.reports.tables import bytes_text, seconds_text
from meshgen.reports.value_reasons import chain_record, chains_to, link_parts, solved_of
from meshgen.sharding.propagation.alternatives import rejected
from meshgen.sharding.propagation.chains import Chain
from meshgen.sharding.propagation.pseudo_ops import PSEUDO_OPS
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.reshard.plan import other_plans

SHOWN_REJECTED = 6  # chosen: number of rejected alternatives shown in the text about one collective


@dataclass(frozen=True)
class ReshardingCollective:
    """A collective of a step with its reshard edges and the program of the mesh that runs it.

    Attributes:
        number: index in execution order, counted over all meshes.
        mesh: name of the mesh; empty if the program has only one mesh.
    """

    number: int
    mesh: str
    row: Collective
    edges: tuple[Edge, ...]
    part: Compiled

    def chains(self, *values: Value) -> list[tuple[str, Chain]]:
        """Return why `values` are sharded over the collective's axes: for each value its name and a chain of
        reasons.
        """
        return chains_to(self.part, values, self.row.axes)

    def sites(self) -> list[Site]:
        """Return the sites in the propagation problem for ops on the source lines of the collective or its reshard
        edges.
        """
        lines = {place.line for edge in self.edges for place in edge.places} or {self.row.line}
        solved = solved_of(self.part)
        sites = (site for site in (solved.sites if solved else ()) if site.node.op not in PSEUDO_OPS)
        return [site for site in sites if site.node.loc and site.node.loc.line in lines]

    def values(self) -> list[Value]:
        """Return the values that the collective reshards. Without reshard edges, return the operands of the ops on its
        line.
        """
        return [edge.value for edge in self.edges] or [value for site in self.sites() for value in site.node.operands]

    @property
    def scope(self) -> tuple[str, bool]:
        """Return the user's name for the part of the program that the collective is in, and whether that is the
        backward pass.
        """
        scopes = (place.scope for edge in self.edges for place in edge.places[::-1] if place.scope)
        return plain_scope(next(scopes, self.row.source.partition(" in ")[2]))

    def is_about(self, subject: str | int) -> bool:
        """Whether the collective concerns `subject`, which is a source line, a scope or a value name.

        A name matches the values that the collective moves and the results of the ops that use them.
        """
        places = [place for edge in self.edges for place in edge.places]
        if isinstance(subject, int):
            return subject == self.row.line or any(place.line == subject for place in places)
        is_in = any(f"{place.scope}/".startswith(f"{subject}/") for place in places if place.scope)
        moved = (value for edge in self.edges for value in (edge.value, *edge.users))
        return is_in or any(value.name == subject.lstrip("%") for value in moved)


def served(executable: Compiled) -> list[ReshardingCollective]:
    """Return the collectives of a step on all meshes, each with its reshard edges."""
    has_several_meshes = len(executable.parts) > 1
    if has_several_meshes:
        link_parts(executable.parts)
    collectives: list[ReshardingCollective] = []
    for part, first in numbered_parts(executable):
        edges, mesh = edges_of(part), part.mesh.name if has_several_meshes else ""
        for index, row in enumerate(part.comms, first):
            collectives.append(
                ReshardingCollective(index, mesh, row, tuple(edges[n] for n in row.edges if n in edges), part)
            )
    return collectives


def plain_scope(scope: str) -> tuple[str, bool]:
    """Strip the wrappers that JAX adds to a scope name, such as `jvp(...)`. Returns the plain name, and whether the
    scope is in the backward pass.
    """
    parts = re.sub(r"transpose\(([^()]*)\)", r"\1", scope).removeprefix("transpose").strip("/").split("/")
    is_backward = "transpose" in scope
    # JAX names the scope of an einsum after its subscripts
    return "/".join(part for part in parts if "->" not in part), is_backward


def explained(collective: ReshardingCollective, *, weighed: bool = True) -> dict[str, Any]:
    """Return a collective with the reasons for it as a JSON-serializable dict.

    Args:
        weighed: include the rejected alternatives, too.
    """
    row, solved = collective.row, solved_of(collective.part)
    sites = collective.sites() if weighed else ()
    alternatives = dict.fromkeys(alternative for site in sites if solved for alternative in rejected(solved, site))
    return collective_record(row) | {
        "number": collective.number,
        "edges": [_edge_record(edge, collective) for edge in collective.edges],
        "chains": [chain_record(*chain) for chain in collective.chains(*collective.values())],
        "rivals": [
            asdict(alternative) | {"text": str(alternative)}
            for alternative in alternatives
            if any(overlaps(alternative.axis, axis) for axis in row.axes)
        ],
    }


def _edge_record(edge: Edge, collective: ReshardingCollective) -> dict[str, Any]:
    """Return a reshard edge as a record: the chains of reasons for the value and its uses, and the alternative reshard
    plans.
    """
    solved = solved_of(collective.part)
    mesh = solved.module.mesh if solved else collective.part.mesh
    return {
        "value": edge.value.name,
        "source": str(edge.source),
        "target": str(edge.target),
        "why": edge.why,
        "users": [value.name for value in edge.users],
        "chains": [chain_record(*chain) for chain in collective.chains(edge.value, *edge.users)],
        "alternatives": [
            {"steps": [step.op for step in plan.steps], "ring_bytes": plan.ring_bytes, "seconds": plan.seconds}
            for plan in other_plans(edge.value.type, edge.source, edge.target, mesh)
        ],
    }


def collective_text(record: dict[str, Any]) -> str:
    """Render the record of a collective as text: its cost, then each reshard edge with its chains of reasons and
    alternatives.
    """
    kind = " ".join(filter(None, (record["kind"], record["reduction"])))
    where = f"  at {record['source']}" if record["source"] else ""
    takes = f"{seconds_text(record['seconds'])}, {seconds_text(record['hidden_seconds'])} of it hidden"
    head = f"#{record['number']} {kind}{_axes_text(record)}: {bytes_text(record['ring_bytes'])}, {takes}{where}"
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
    """Return the lines about a transfer between meshes: its shardings on both meshes, and the rejected pairs of
    shardings.
    """
    lines = [
        f"it is made as {record['made']}, crosses from {record['source']} to {record['target']}, and is used as {record['wanted']}"
    ]
    lines += [
        f"instead: from {candidate['source']} to {candidate['target']}: {bytes_text(candidate['moved'])} including traffic on both meshes, {seconds_text(candidate['seconds'])}"
        for candidate in record["alternatives"]
    ]
    return lines


def _edge_lines(edge: dict[str, Any]) -> list[str]:
    why = edge["why"].partition("; ")[0]  # the later clauses repeat the ends of the chains of reasons
    alternatives = [
        f"instead: {', '.join(plan['steps'])}: {bytes_text(plan['ring_bytes'])}, {seconds_text(plan['seconds'])}"
        for plan in edge["alternatives"]
    ]
    return [f"because {why}", *(f"  {line}" for line in (*_chain_lines(edge["chains"]), *alternatives))]


def _chain_lines(chains: Sequence[dict[str, Any]]) -> Iterator[str]:
    for chain in chains:
        yield f"{chain['value']}: {chain['text'][0]}"
        yield from chain["text"][1:]


def _rejected_lines(records: Sequence[dict[str, Any]]) -> Iterator[str]:
    """Yield the rejected alternatives for the ops at both ends of the reshard, ordered by the extra time that they
    take.
    """
    alternatives = sorted(records, key=lambda alternative: alternative["seconds_more"])
    yield from (f"instead: {alternative['text']}" for alternative in alternatives[:SHOWN_REJECTED])
    if len(alternatives) > SHOWN_REJECTED:
        yield f"... {len(alternatives) - SHOWN_REJECTED} more choices that are not faster ..."


def _note(record: dict[str, Any]) -> str:
    """Return the note in brackets at the end of the reason, which a pass appended, or "" if there is none.

    A closing bracket that belongs to a sharding is not a note.
    """
    _, _, note = record["why"].rpartition("[")
    return note.removesuffix("]") if record["edges"] and note.endswith("]") and "{" not in note else ""


def _axes_text(record: dict[str, Any]) -> str:
    """Return where the collective runs: its mesh (if there are several), and its axes, or the other mesh of a
    transfer.
    """
    there = f" on @{record['mesh']}" if "mesh" in record else ""
    if peer := record.get("peer"):
        return f"{there} {'to' if record['kind'] == 'transfer_send' else 'from'} @{peer}"
    return f"{there} over {', '.join(record['axes'])}"
