"""Which nodes of a graph become attention kernels, or gradients of one: what is between the products is read nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, Protocol

from meshgen.codegen.fusion.attention import ROWS_OF_A_TILE, Attention, attention_of
from meshgen.codegen.fusion.attention_gradient import Gradient, gradient_space, gradients_of
from meshgen.codegen.fusion.attention_indices import per_row_nodes, query_number, space_of
from meshgen.codegen.fusion.rematerialized import FreeNodes
from meshgen.codegen.fusion.space import Space
from meshgen.codegen.fusion.weighted_sum import weighted_sum
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.classes import POINTWISE


class Reading(Protocol):
    """What is known about a graph before its groups grow: `fusion/groups.Grouping`."""

    graph: Graph
    views: set[Node]
    producer: Mapping[Value, Node]
    position: dict[Node, int]
    must: dict[Value, None]
    free: FreeNodes
    readers: dict[Value, list[Node]]

    def copied(self, value: Value) -> Node | None: ...
    def node_sources(self, node: Node) -> tuple[Value, ...]: ...


class Region(NamedTuple):
    """Nodes that one kernel computes.

    Attributes:
        products: the dots whose results leave it.
        nodes: in program order, without those that every reader computes again.
        per_row: values that it has beside the products' results.
        once: values in memory that one program at most reads an element of: those that the rows of queries are made of, and where
            these are few, those that keys and values are made of.
        space: makes a new space with the products in it, and the values per row.
    """

    products: tuple[Node, ...]
    nodes: tuple[Node, ...]
    per_row: tuple[Value, ...]
    once: frozenset[Value]
    space: Callable[[], Space | None]


def attention_regions(of: Reading) -> dict[Node, Region]:
    """The region of each node that is in one."""
    found: dict[Node, Region] = {}
    for node in of.graph.nodes:
        attention = attention_of(node, of.producer.get, lambda v: of.readers.get(v, ()))
        region = None if attention is None else _region(attention, of)
        if region is not None and not any(n in found for n in region.nodes):
            found.update(dict.fromkeys(region.nodes, region))
    sums = [weighted_sum(node, of.producer.get) for node in of.graph.nodes if node not in found]
    for gradient in gradients_of([each for each in sums if each is not None]):
        region = _gradient_region(gradient, of)
        if region is not None and not any(n in found for n in region.nodes):
            found.update(dict.fromkeys(region.nodes, region))
    return found


def _gradient_region(gradient: Gradient, of: Reading) -> Region | None:
    """The region of a gradient; None if it is a single product, or something outside needs what only registers hold."""
    products = tuple(each.product for each in gradient.sums)
    members = gradient.nodes(of.position, of.producer.get)
    nodes = dict.fromkeys(n for n in members if not of.free.has(n))
    if any(n in of.views for n in members) or any(_is_read_outside(n, nodes, of) for n in nodes if n not in products):
        return None
    if _waits_inside(nodes, of):
        return None
    return Region(products, tuple(nodes), (), frozenset(), lambda: gradient_space(gradient, of.copied))


def _region(attention: Attention, of: Reading) -> Region | None:
    """The region of an attention; None if something outside needs what only registers hold."""
    members = sorted(attention.members, key=of.position.__getitem__)
    nodes = dict.fromkeys(n for n in members if not of.free.has(n))
    by_row = per_row_nodes(attention, members, of.producer.get)
    over_scores = [n for n in nodes if n not in by_row and n is not attention.product]
    if any(n in of.views for n in members) or any(_is_read_outside(n, nodes, of) for n in over_scores):
        return None
    more = _rows_before(attention, [n for n in nodes if n in by_row], nodes, of)
    rows = None if more is None else [n for n in (*nodes, *more) if n in more or (n in by_row and n.op in POINTWISE)]
    number = query_number(attention, of.producer.get)
    if rows is None or number is None:
        return None

    def space() -> Space | None:
        found = space_of(attention, of.producer.get, of.copied)
        return found if found is not None and all(found.add(n) for n in rows) else None

    if space() is None or _waits_inside(dict.fromkeys([*nodes, *rows]), of):
        return None
    ordered = tuple(sorted({*nodes, *rows}, key=of.position.__getitem__))
    per_row = tuple(n.result for n in ordered if n in (attention.maximum, attention.total) or n in rows)
    made_once = [attention.scores.operands[number]]
    if attention.rows <= ROWS_OF_A_TILE:
        made_once += [*attention.scores.operands, attention.product.operands[1 - attention.side]]
    once = frozenset(source for value in made_once for source in of.free.sources(value))
    return Region((attention.product,), ordered, per_row, once, space)


def _is_read_outside(node: Node, inside: Mapping[Node, None], of: Reading) -> bool:
    return any(v in of.must or any(n not in inside for n in of.readers.get(v, ())) for v in node.results)


def _waits_inside(nodes: Mapping[Node, None], of: Reading) -> bool:
    """Whether a node waits for something that is not there before the first of the nodes."""
    first = min(map(of.position.__getitem__, nodes))
    waits = {v for node in nodes for v in of.free.waits_of(node)}
    return any(of.position[of.producer[v]] >= first for v in waits if v in of.producer)


def _rows_before(
    attention: Attention, rows: Sequence[Node], nodes: Mapping[Node, None], of: Reading
) -> dict[Node, None] | None:
    """Further nodes that read values per row before the second product; None if one of them needs something else.

    What the kernel computes is there after its launch only.
    """
    found, waiting = dict[Node, None](), list(rows)
    values = {v for n in rows for v in n.results}
    while waiting:
        for reader in of.readers.get(waiting.pop().result, ()):
            if reader in nodes or reader in found or of.position[reader] > of.position[attention.product]:
                continue
            if reader.op not in POINTWISE or not values.issuperset(of.node_sources(reader)):
                return None
            found[reader] = None
            values.update(reader.results)
            waiting.append(reader)
    return found
