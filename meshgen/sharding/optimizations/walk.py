"""Forward walk over a graph that replaces nodes, shared by all optimizations, and queries about single nodes.

Queries use tables of producers and use counts, so that each pass takes linear time.
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
from meshgen.ops.dead_code import without_dead
from meshgen.ops.uniformity import Varying
from meshgen.sharding.collective_reasons import merged_reason
from meshgen.spec import Sharding


class Price(NamedTuple):
    """Bytes that each device moves for a node, and the seconds that this takes."""

    ring_bytes: int
    seconds: float


def is_bound(node: Node) -> bool:
    """Whether a node, other than a reshard, uses a value whose annotation requires a sharding of its users."""
    return node.op not in SHARDING_OPS and True in [value.is_bound for value in node.operands]


def local_type(value: Value, mesh: Mesh) -> TensorType:
    """Return the type of the value's buffer on a device. A value without a sharding has a local type already."""
    if value.sharding is None:
        return value.type
    return value.type.with_shape(value.sharding.local_shape(value.type.sizes, mesh))


def price(op: str, attrs: Mapping[str, Any], source: Value, result: Value, mesh: Mesh) -> Price:
    """Return the price of a sharding op that turns `source` into `result`."""
    moved = int(ring_bytes(op, attrs, local_type(source, mesh), local_type(result, mesh), mesh))
    return Price(moved, seconds_of(op, attrs, moved, mesh) if moved else 0.0)


def moved_ends(node: Node) -> list[Value]:
    """Return operand and result of a collective. A send has only an operand, a recv only a result."""
    return node.results[:1] if is_transfer_recv(node) else [*node.operands[:1], *node.results[:1]]


def price_of(node: Node, mesh: Mesh) -> Price:
    """Return the bytes and seconds that each device spends on the communication of a node, without its computation."""
    if node.op not in COMMUNICATING:
        return Price(0, 0.0)
    ends = moved_ends(node)
    return price(node.op, node.attrs, ends[0], ends[-1], mesh)


def total_bytes(graph: Graph, mesh: Mesh) -> int:
    """Return the bytes that each device moves for the collectives of a graph. A collective in a loop counts once."""
    inner = sum(total_bytes(region, mesh) for node in graph.nodes for region in node.regions)
    return inner + sum(price_of(node, mesh).ring_bytes for node in graph.nodes if node.op in COMMUNICATING)


def merged_notes(nodes: Sequence[Node], note: str) -> Notes:
    """Return notes for a node that replaces `nodes`: their reasons, extended by the text `note`, and the edges they
    serve.
    """
    edges = tuple(dict.fromkeys(edge for node in nodes for edge in node.notes.edges))
    return Notes(merged_reason(nodes, note), edges)


class Walk:
    """A forward walk over a module. A rule is applied to nodes and may emit replacements.

    Args:
        of: the ops of the nodes that the rule applies to, or None for all ops.
        after: the rule applies only to nodes with an operand that one of these ops produces, or None for all nodes.
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
        # producers in the current graph only, since nothing moves into or out of a loop
        self.producers: dict[Value, Node] = {}
        self.constants: dict[Value, Node] = {}  # producers of constants in all graphs visited so far
        self._rule = rule
        self._module, self._context = module, context
        self._varying: Varying | None = None
        self._replacements: dict[Value, Value] = {}
        self._nodes: list[Node] = []
        self._positions: Mapping[Value, int] = {}  # positions in the current graph of the nodes that define values
        self._position = 0  # position of the current node

    @cached_property
    def uses(self) -> Counter[Value]:
        """Return the use counts of all values. The first access must come before the walk changes anything."""
        return Counter(self._module.graph.index.use_counts)

    def graph(self, old: Graph) -> Graph:
        """Return the rewritten graph, or `old` itself if no rule applied."""
        saved = self._nodes, self.producers, self._positions, self._position
        self._nodes, index = [], old.index
        self.producers, self._positions = dict(index.producers), index.positions
        self.constants.update((node.result, node) for node in old.nodes if is_constant(node))
        of, replacements, nodes = self._of, self._replacements, self._nodes
        for self._position, node in enumerate(old.nodes):
            matches = (of is None or node.op in of) and self._matches(node)
            if matches or node.regions or (replacements and not replacements.keys().isdisjoint(node.operands)):
                self._visit(node)
            else:
                nodes.append(node)
        outputs = [self._replacements.get(value, value) for value in old.outputs]
        is_old = self._nodes == old.nodes and outputs == old.outputs  # nodes and values compare by identity
        new = old if is_old else Graph(old.name, old.inputs, self._nodes, outputs)
        self._nodes, self.producers, self._positions, self._position = saved
        return new

    def _visit(self, node: Node) -> None:
        if node.regions or not self._replacements.keys().isdisjoint(node.operands):
            node = self._with_new_values(node)
        matches = not node.regions and self._matches(node) and not is_bound(node)
        new_values = self._rule(node, self) if matches else None
        if new_values is None:
            self._keep(node)
            return
        for old, new in zip(node.results, new_values, strict=True):
            self._replacements[old] = new
            new.inherit_annotations(old)
            self.uses[new] += self.uses.pop(old, 0)
        self._release(node)

    def _matches(self, node: Node) -> bool:
        """Whether the rule applies to a node, by the node's op and by the ops that produce its operands."""
        if self._of is not None and node.op not in self._of:
            return False
        if self._after is None:
            return True
        producers = map(self.producers.get, node.operands)
        return any(producer is not None and producer.op in self._after for producer in producers)

    def _keep(self, node: Node) -> None:
        self._nodes.append(node)
        for value in node.results:
            self.producers[value] = node

    def _with_new_values(self, node: Node) -> Node:
        operands = [self._replacements.get(value, value) for value in node.operands]
        regions = tuple(self.graph(region) for region in node.regions)
        is_old = operands == node.operands and all(new is old for new, old in zip(regions, node.regions, strict=True))
        return node if is_old else replace(node, operands=operands, regions=regions)

    def _release(self, node: Node) -> None:
        """Drop the node: its operands have one use less, and producers without uses are dropped as well."""
        dropped = [node]
        while dropped:
            for value in dropped.pop().operands:
                self.uses[value] -= 1
                producer = self.producers.get(value)
                if (
                    producer
                    and producer.op not in AWAITED
                    and not any(self.uses[result] for result in producer.results)
                ):
                    dropped.append(producer)

    def emit(self, op: str, operands: Sequence[Value], attrs: Mapping[str, Any], like: Value,
             sharding: Sharding | None, *, loc: Location | None = None, notes: Notes = NO_NOTES) -> Value:  # fmt: skip
        """Append a node before the current one. Its result has the type, name and location of `like`."""
        result = Value(like.type, like.name, sharding, like.loc)
        node = Node(op, list(operands), [result], dict(attrs), loc, notes=notes)
        if op not in SHARDING_OPS and sharding is not None:
            node.sharding = NodeSharding(tuple(_sharding_of(v) for v in operands), (sharding,), sharding.dims)
        self._nodes.append(node)
        self.producers[result] = node
        self.uses.update(operands)
        if self._varying:
            self._varying.add(node)
        return result

    def is_uniform(self, value: Value, axes: Sequence[str]) -> bool:
        """Whether a value of a local program is provably equal on all devices of each group over `axes`."""
        if self._varying is None:
            self._varying, before = self._initial_varying(), self._module.graph.index.producers
            for node in self._nodes:
                if not node.results or before.get(node.results[0]) is not node:
                    self._varying.add(node)
        return self._varying.is_uniform(value, axes)

    def _initial_varying(self) -> Varying:
        return self._context.analysis(Varying, self._module).copy()

    def is_made(self, value: Value) -> bool:
        """Whether the current graph defines the value before the current node."""
        return value in self.producers and self._positions.get(value, -1) < self._position

    def single(self, value: Value) -> bool:
        """Whether the value has only one use, the current node."""
        return self.uses[value] == 1


Rule = Callable[[Node, Walk], Sequence[Value] | None]


def _sharding_of(value: Value) -> Sharding:
    return value.sharding or Sharding.replicated(value.type.rank)


def walk(
    module: Module,
    context: Compilation,
    rule: Rule,
    of: AbstractSet[str] | None = None,
    after: AbstractSet[str] | None = None,
) -> Module:
    """Apply a rule to every node, and remove unused nodes. Returns the module itself if the rule changes nothing.

    Args:
        of, after: which nodes the rule applies to; see `Walk`.
    """
    if any(ops is not None and module.graph.index.ops.isdisjoint(ops) for ops in (of, after)):
        return module
    graph = Walk(module, context, rule, of, after).graph(module.graph)
    return module if graph is module.graph else replace(module, graph=without_dead(graph))


def with_graph(module: Module, graph: Graph) -> Module:
    """Return the module with another graph, or the module itself if both graphs have the same nodes, also in
    regions.
    """
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
