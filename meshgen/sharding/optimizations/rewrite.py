"""The walk that optimisations share: one forward pass over a graph that replaces nodes, and queries about single nodes.

Every pass is one walk, so its time is linear: queries read tables of producers and use counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

from meshgen.ccl.cost import ring_bytes, seconds_of
from meshgen.compilation import Compilation
from meshgen.errors import Location
from meshgen.ir.graph import Graph, Module, Node, NodeSharding, TensorType, Value
from meshgen.ir.notes import NO_NOTES, Notes
from meshgen.ir.predicates import is_constant, is_transfer_recv
from meshgen.mesh import Mesh
from meshgen.ops.classes import AWAITED, COMMUNICATING, SHARDING_OPS
from meshgen.ops.live import without_dead
from meshgen.ops.uniform import Varying
from meshgen.sharding.reasons import merged_reason
from meshgen.spec import Sharding


class Price(NamedTuple):
    """Bytes and seconds of a node on every device."""

    ring_bytes: int
    seconds: float


def is_bound(node: Node) -> bool:
    """Whether a node reads a value whose sharding is required for its users."""
    return node.op not in SHARDING_OPS and True in [value.is_bound for value in node.operands]


def local_type(value: Value, mesh: Mesh) -> TensorType:
    """Type of a device's buffer; types are local already where no sharding is known."""
    if value.sharding is None:
        return value.type
    return value.type.with_shape(value.sharding.local_shape(value.type.sizes, mesh))


def price(op: str, attrs: Mapping[str, Any], source: Value, result: Value, mesh: Mesh) -> Price:
    """The price of a sharding op between two values."""
    moved = int(ring_bytes(op, attrs, local_type(source, mesh), local_type(result, mesh), mesh))
    return Price(moved, seconds_of(op, attrs, moved, mesh) if moved else 0.0)


def moved_ends(node: Node) -> list[Value]:
    """Operand and result types of a collective; a send has no result, a recv no operand."""
    return node.results[:1] if is_transfer_recv(node) else [*node.operands[:1], *node.results[:1]]


def price_of(node: Node, mesh: Mesh) -> Price:
    """The price of a node; computing costs nothing here."""
    if node.op not in COMMUNICATING:
        return Price(0, 0.0)
    ends = moved_ends(node)
    return price(node.op, node.attrs, ends[0], ends[-1], mesh)


def total_bytes(graph: Graph, mesh: Mesh) -> int:
    """Bytes that the collectives of a graph move, each counted once however often a loop runs."""
    inner = sum(total_bytes(region, mesh) for node in graph.nodes for region in node.regions)
    return inner + sum(price_of(node, mesh).ring_bytes for node in graph.nodes if node.op in COMMUNICATING)


def merged_notes(nodes: Sequence[Node], note: str) -> Notes:
    """The reasons of nodes that became one, what was done, and the edges that all of them serve."""
    edges = tuple(dict.fromkeys(edge for node in nodes for edge in node.notes.edges))
    return Notes(merged_reason(nodes, note), edges)


class Walk:
    """One forward walk. A rule is asked about nodes and may emit others in their place.

    Args:
        of: the ops of the nodes that it is asked about; None: any.
        after: ops one of which makes an operand of each node that it is asked about; None: any.
    """

    def __init__(
        self,
        module: Module,
        context: Compilation,
        rule: Rule,
        of: AbstractSet[str] | None = None,
        after: AbstractSet[str] | None = None,
    ) -> None:
        self.mesh: Mesh = module.mesh
        self._of, self._after = of, after
        self.producers: dict[Value, Node] = {}  # of all of the current graph only: nothing moves into or out of a loop
        self.constants: dict[Value, Node] = {}  # of the graphs that were begun
        self._rule = rule
        self._module, self._context = module, context
        self._varying: Varying | None = None
        self._same: dict[Value, Value] = {}
        self._nodes: list[Node] = []
        self._places: Mapping[Value, int] = {}  # in the current graph, of the nodes that make values
        self._place = 0  # of the current node

    @cached_property
    def uses(self) -> Counter[Value]:
        """How often each value is used; counted when it is first asked for, which is before the walk changes anything."""
        return Counter(self._module.graph.index.use_counts)

    def graph(self, old: Graph) -> Graph:
        """The graph, rewritten; itself if no rule applied."""
        saved = self._nodes, self.producers, self._places, self._place
        self._nodes, index = [], old.index
        self.producers, self._places = dict(index.producers), index.positions
        self.constants.update((node.result, node) for node in old.nodes if is_constant(node))
        of, same, nodes = self._of, self._same, self._nodes
        for self._place, node in enumerate(old.nodes):
            is_asked = (of is None or node.op in of) and self._is_asked(node)
            if is_asked or node.regions or (same and not same.keys().isdisjoint(node.operands)):
                self._visit(node)
            else:
                nodes.append(node)
        outputs = [self._same.get(value, value) for value in old.outputs]
        is_old = self._nodes == old.nodes and outputs == old.outputs  # nodes and values compare by identity
        found = old if is_old else Graph(old.name, old.inputs, self._nodes, outputs)
        self._nodes, self.producers, self._places, self._place = saved
        return found

    def _visit(self, node: Node) -> None:
        if node.regions or not self._same.keys().isdisjoint(node.operands):
            node = self._with_new_values(node)
        is_asked = not node.regions and self._is_asked(node) and not is_bound(node)
        found = self._rule(node, self) if is_asked else None
        if found is None:
            self._keep(node)
            return
        for old, new in zip(node.results, found, strict=True):
            self._same[old] = new
            new.stands_for(old)
            self.uses[new] += self.uses.pop(old, 0)
        self._release(node)

    def _is_asked(self, node: Node) -> bool:
        """Whether the rule may have something to change at a node."""
        if self._of is not None and node.op not in self._of:
            return False
        if self._after is None:
            return True
        makers = map(self.producers.get, node.operands)
        return any(made is not None and made.op in self._after for made in makers)

    def _keep(self, node: Node) -> None:
        self._nodes.append(node)
        for value in node.results:
            self.producers[value] = node

    def _with_new_values(self, node: Node) -> Node:
        operands = [self._same.get(value, value) for value in node.operands]
        regions = tuple(self.graph(region) for region in node.regions)
        is_old = operands == node.operands and all(new is old for new, old in zip(regions, node.regions, strict=True))
        return node if is_old else replace(node, operands=operands, regions=regions)

    def _release(self, node: Node) -> None:
        """Drop the node: its operands have one use less, and nodes without uses are dropped as well."""
        left = [node]
        while left:
            for value in left.pop().operands:
                self.uses[value] -= 1
                made = self.producers.get(value)
                if made and made.op not in AWAITED and not any(self.uses[result] for result in made.results):
                    left.append(made)

    def emit(self, op: str, operands: Sequence[Value], attrs: Mapping[str, Any], like: Value,
             sharding: Sharding | None, *, loc: Location | None = None, notes: Notes = NO_NOTES) -> Value:  # fmt: skip
        """Append a node before the current one; its result has the type, name and location of `like`."""
        result = Value(like.type, like.name, sharding, like.loc)
        node = Node(op, list(operands), [result], dict(attrs), loc, notes=notes)
        if op not in SHARDING_OPS and sharding is not None:
            node.sharding = NodeSharding(tuple(_known(v) for v in operands), (sharding,), sharding.dims)
        self._nodes.append(node)
        self.producers[result] = node
        self.uses.update(operands)
        if self._varying:
            self._varying.add(node)
        return result

    def is_uniform(self, value: Value, axes: Sequence[str]) -> bool:
        """Whether a value of a local program is provably the same on all devices of every group over `axes`."""
        if self._varying is None:
            self._varying, before = self._known_varying(), self._module.graph.index.producers
            for node in self._nodes:
                if not node.results or before.get(node.results[0]) is not node:
                    self._varying.add(node)
        return self._varying.is_uniform(value, axes)

    def _known_varying(self) -> Varying:
        return self._context.analysis(Varying, self._module).copy()

    def is_made(self, value: Value) -> bool:
        """Whether a node of the current graph makes the value before the current one; graphs of several nodes are walked several times."""
        return value in self.producers and self._places.get(value, -1) < self._place

    def single(self, value: Value) -> bool:
        """Whether the current node is the only use of the value."""
        return self.uses[value] == 1


Rule = Callable[[Node, Walk], Sequence[Value] | None]


def _known(value: Value) -> Sharding:
    return value.sharding or Sharding.replicated(value.type.rank)


def walk(
    module: Module,
    context: Compilation,
    rule: Rule,
    of: AbstractSet[str] | None = None,
    after: AbstractSet[str] | None = None,
) -> Module:
    """The module with a rule applied at every node, without unused nodes; itself if the rule applies nowhere.

    Args:
        of, after: as of `Walk`.
    """
    if any(ops is not None and module.graph.index.ops.isdisjoint(ops) for ops in (of, after)):
        return module
    graph = Walk(module, context, rule, of, after).graph(module.graph)
    return module if graph is module.graph else replace(module, graph=without_dead(graph))


def with_graph(module: Module, graph: Graph) -> Module:
    """The module with another graph; itself if that has the same nodes, perhaps with copies of their regions."""
    return module if _is_same(module.graph, graph) else replace(module, graph=graph)


def _is_same(old: Graph, new: Graph) -> bool:
    if old is new:
        return True
    is_framed = (old.inputs, old.outputs, len(old.nodes)) == (new.inputs, new.outputs, len(new.nodes))
    return is_framed and all(map(_is_same_node, old.nodes, new.nodes))


def _is_same_node(old: Node, new: Node) -> bool:
    if old is new:
        return True
    is_alike = (old.op, old.operands, old.results) == (new.op, new.operands, new.results) and old.attrs is new.attrs
    return is_alike and bool(new.regions) and all(map(_is_same, old.regions, new.regions))
