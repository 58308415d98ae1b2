"""Why a collective is there: the edges that it serves, the annotations that its axes come from, and the alternatives.

The edges are those of stage `materialize` whose numbers it carries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from meshgen.errors import Location
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import flow_regions
from meshgen.mesh import overlaps
from meshgen.ops.classes import LOCAL_OPS
from meshgen.reports.comms import Collective, collective_record
from meshgen.reports.interface import Compiled
from meshgen.reports.tables import bytes_text, seconds_text
from meshgen.sharding.propagation.pseudo_ops import PSEUDO_OPS
from meshgen.sharding.propagation.sites import Site
from meshgen.sharding.propagation.solve import Solved
from meshgen.sharding.reshard.plan import ReshardPlan, other_plans
from meshgen.spec import Sharding

if TYPE_CHECKING:
    from meshgen.sharding.propagation.chains import Reasons

SHOWN_REJECTED = 6  # of a collective in text


@dataclass(frozen=True)
class Edge:
    """A value on its way to uses that need it with another sharding."""

    value: Value
    uses: tuple[Node, ...]
    source: Sharding
    target: Sharding
    why: str
    places: tuple[Location, ...]  # of its users and its producer
    maker: Node | None = None  # None: an input

    @property
    def users(self) -> tuple[Value, ...]:
        """The results of its uses."""
        return tuple(value for node in self.uses for value in node.results)


def collective_records_of(
    executable: Compiled,
    solved: Solved | None,
    reasons: Reasons | None,
    numbers: Sequence[int],
    *,
    weighed: bool = True,
) -> list[dict[str, Any]]:
    """Records of the collectives with these numbers, as plain values; `weighed`: with the rejected alternatives."""
    module = executable.stages.get("materialize")
    edges = edges_of(module) if module else {}
    return [_record(executable, edges, solved, reasons, number, weighed) for number in numbers]


def numbers_about(executable: Compiled, what: str | int) -> list[int]:
    """Numbers of the collectives that move a value or an operand of its producer; or that come from a line or serve an op there."""
    module = executable.stages.get("materialize")
    edges = edges_of(module) if module else {}
    return [number for number, row in enumerate(executable.comms) if _is_about(row, edges, what)]


def _is_about(row: Collective, edges: Mapping[int, Edge], what: str | int) -> bool:
    mine = [edges[number] for number in row.edges if number in edges]
    if isinstance(what, int):
        return what == row.line or any(place.line == what for edge in mine for place in edge.places)
    is_in = any(f"{place.scope}/".startswith(f"{what}/") for edge in mine for place in edge.places if place.scope)
    return is_in or any(value.name == what.lstrip("%") for edge in mine for value in (edge.value, *edge.users))


def _record(
    executable: Compiled,
    edges: Mapping[int, Edge],
    solved: Solved | None,
    reasons: Reasons | None,
    number: int,
    weighed: bool,
) -> dict[str, Any]:
    from meshgen.sharding.propagation.rejected import rejected

    row: Collective = executable.comms[number]
    mine = [edges[number] for number in row.edges if number in edges]
    places = {place for edge in mine for place in edge.places}
    lines = {place.line for place in places} or ({row.line} if row.line else set[int]())
    sites = [site for site in solved.sites if site.node.loc and site.node.loc.line in lines] if solved else []
    ops = [site for site in sites if _is_op(site)] if weighed else []
    others = dict.fromkeys(other for site in ops if solved for other in rejected(solved, site))
    values = [edge.value for edge in mine] or [value for site in sites if _is_op(site) for value in site.node.operands]
    return collective_record(row) | {
        "number": number,
        "edges": [_edge_record(edge, row, executable, solved, reasons) for edge in mine],
        "chains": [entry for value in dict.fromkeys(values) for entry in _chains(value, row.axes, reasons)],
        "rivals": [
            asdict(other) | {"text": str(other)}
            for other in others
            if any(overlaps(other.axis, axis) for axis in row.axes)
        ],
    }


def _is_op(site: Site) -> bool:
    return site.node.op not in PSEUDO_OPS


def chains_of(edge: Edge, axes: Sequence[str], reasons: Reasons | None) -> list[dict[str, Any]]:
    """The chains that lead to these axes on the value of an edge and on the results of its uses."""
    values = dict.fromkeys((edge.value, *edge.users))
    return [entry for value in values for entry in _chains(value, axes, reasons)]


def _chains(value: Value, axes: Sequence[str], reasons: Reasons | None) -> Iterator[dict[str, Any]]:
    """The chains that lead to the axes of a collective on a value."""
    if reasons is None or (same := reasons.same(value)) is None:
        return
    for chain in reasons.chains(same):
        if any(overlaps(chain.axis, axis) for axis in axes):
            yield {"value": reasons.name(same)} | chain.record() | {"text": chain.lines()}


def _edge_record(
    edge: Edge, row: Collective, executable: Compiled, solved: Solved | None, reasons: Reasons | None
) -> dict[str, Any]:
    """An edge with the chains of its value and of its users, and the other plans that reshard it."""
    plans = other_plans(edge.value.type, edge.source, edge.target, solved.module.mesh if solved else executable.mesh)
    return {
        "value": edge.value.name,
        "source": str(edge.source),
        "target": str(edge.target),
        "why": edge.why,
        "users": [value.name for value in edge.users],
        "chains": chains_of(edge, row.axes, reasons),
        "alternatives": [_plan_record(plan) for plan in plans],
    }


def _plan_record(plan: ReshardPlan) -> dict[str, Any]:
    return {"steps": [step.op for step in plan.steps], "ring_bytes": plan.ring_bytes, "seconds": plan.seconds}


def edges_of(module: Module) -> dict[int, Edge]:
    """The edges of a materialised program by their numbers."""
    steps: dict[int, list[Node]] = {}
    makers: dict[Value, Node] = {}
    uses: dict[Value, list[Node]] = {}
    for graph in _graphs(module.graph):
        makers |= graph.index.producers
        for node in graph.nodes:
            for number in node.notes.edges:
                steps.setdefault(number, []).append(node)
            for value in node.operands:
                uses.setdefault(value, []).extend([node] if node.op not in LOCAL_OPS else ())
            if node.op in LOCAL_OPS and node.operands[0] in uses:  # a slice for the uses does not count as a use
                uses[node.result] = uses[node.operands[0]]
    return {number: _edge(nodes, makers, uses) for number, nodes in steps.items()}


def _graphs(graph: Graph) -> Iterator[Graph]:
    yield graph
    for node in graph.nodes:
        for region in flow_regions(node):
            yield from _graphs(region)


def _edge(steps: Sequence[Node], makers: Mapping[Value, Node], uses: Mapping[Value, list[Node]]) -> Edge:
    start, end = steps[0].operands[0], steps[-1].results[0]
    maker = makers.get(start)
    assert start.sharding is not None and end.sharding is not None, "values are sharded after materialize"
    places = [steps[0].loc, maker.loc if maker else start.loc]
    why = steps[0].notes.why
    found = tuple(place for place in places if place)
    return Edge(start, tuple(uses.get(end, ())), start.sharding, end.sharding, why, found, maker)


def collective_text(record: dict[str, Any]) -> str:
    """The record as text: what it costs, then each edge that it serves with its chains and other plans."""
    from meshgen.reports.parts import crossing_lines

    kind = " ".join(filter(None, (record["kind"], record["reduction"])))
    where = f"  at {record['source']}" if record["source"] else ""
    takes = f"{seconds_text(record['seconds'])}, {seconds_text(record['hidden_seconds'])} of it hidden"
    head = f"#{record['number']} {kind}{_way(record)}: {bytes_text(record['ring_bytes'])}, {takes}{where}"
    crossing = crossing_lines(record["crossing"]) if "crossing" in record else []
    if record["edges"]:
        lines = [line for edge in record["edges"] for line in _edge_lines(edge)]
    else:
        lines = [f"because {record['why']}", *crossing[:1], *_chain_lines(record["chains"]), *crossing[1:]]
    if note := _note(record):
        lines.append(note)
    lines += _rejected_lines(record["rivals"])
    return "\n".join([head, *(f"    {line}" for line in lines)])


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
