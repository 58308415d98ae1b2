"""Find the values that are one number everywhere, which need no decision: each device makes any part of them for nothing.

Example on x=4, where `%x : f32[64,32]{x}` is split by rows:

    %c = constant 0.1 : f32[]
    %b = broadcast_in_dim %c : f32[64,32]     no site: it is made as its only use reads it, {x}
    %y = multiply %x, %b                      labels: rows split, or whole; what it reads of %b costs nothing

Training steps have thousands of them: two in five operations of one of GPT-2 with AdamW. One that is read in several shardings is made
whole, from which every other one is a local slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from meshgen.ir.graph import Graph, Node, NodeSharding, Value
from meshgen.ir.manual import is_open
from meshgen.ir.predicates import is_constant, is_control, is_manual
from meshgen.ir.spread import spread_element
from meshgen.mesh import Mesh
from meshgen.ops.classes import ELEMENTWISE
from meshgen.ops.registry import Rules
from meshgen.ops.rules.rule import Rule
from meshgen.sharding.propagation.control import Flat
from meshgen.spec import Sharding


def without_splats(nodes: Sequence[Flat]) -> list[Flat]:
    """The nodes, which are in the order of their dependences, without those that make splats; options and annotations keep a node."""
    splats: set[Value] = set()
    kept: list[Flat] = []
    for each in nodes:
        if _is_splat(each.node, splats):
            splats.add(each.node.result)
        else:
            kept.append(each)
    return kept


def _is_splat(node: Node, splats: set[Value]) -> bool:
    if is_constant(node):
        return node.option is None and (not node.result.type.rank or spread_element(node.attrs.value) is not None)
    is_made_of_splats = bool(node.operands) and splats.issuperset(node.operands)
    return is_made_of_splats and node.option is None and (node.op == "broadcast_in_dim" or node.op in ELEMENTWISE)


def splat_shardings(graph: Graph, decided: Mapping[Node, NodeSharding], mesh: Mesh) -> dict[Node, NodeSharding]:
    """The shardings of the nodes that make splats: all that are not `decided`, which are the nodes of all sites."""
    reads: dict[Value, list[Sharding]] = {}
    found: dict[Node, NodeSharding] = {}
    rules = Rules()

    def note(node: Node, sharding: NodeSharding) -> None:
        for value, read in zip(node.operands, sharding.operands, strict=True):
            reads.setdefault(value, []).append(read)

    splats = [node for node in _nodes(graph) if node not in decided]
    if splats:
        for node, sharding in decided.items():
            note(node, sharding)
    for node in reversed(splats):
        found[node] = _read_as(node, rules.of(node), reads.get(node.result, ()), mesh)
        note(node, found[node])
    return found


def _nodes(graph: Graph) -> Iterator[Node]:
    """The nodes that propagation looks at, but for control flow and manual computations themselves."""
    for node in graph.nodes:
        if is_control(node) or is_open(node):
            for region in node.regions:
                yield from _nodes(region)
        elif not is_manual(node):
            yield node


def _read_as(node: Node, rule: Rule, reads: Sequence[Sharding], mesh: Mesh) -> NodeSharding:
    """The shardings of a node whose result is read so: as all uses read it, but for axes of one device, else whole."""
    wanted = Sharding(((),) * node.result.type.rank)
    if reads and all(read.dims == reads[0].dims for read in reads) and not any(read.partial for read in reads):
        wanted = Sharding(tuple(tuple(a for a in axes if mesh.axis_size(a) > 1) for axes in reads[0].dims))
    axes = {factor: wanted.dims[dim] for dim, factors in enumerate(rule.results[0]) for factor in factors[:1]}
    operands = tuple(
        Sharding(tuple(axes.get(factors[0], ()) if factors else () for factors in dims)) for dims in rule.operands
    )
    return NodeSharding(operands, (wanted,), tuple(axes.get(number, ()) for number in range(len(rule.factors))))
