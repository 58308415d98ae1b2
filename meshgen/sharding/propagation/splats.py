"""Find splats, which are values that are one number everywhere.

They need no decision, because each device computes any shard of them for free.

Example on x=4, where `%x : f32[64,32]{x}` is split by rows:

    %c = constant 0.1 : f32[]
    %b = broadcast_in_dim %c : f32[64,32]     no site: it gets the sharding that its only use reads, {x}
    %y = multiply %x, %b                      labels: rows split, or replicated; reading %b costs nothing

Training steps have thousands of splats: they are two in five operations of a GPT-2 step with AdamW. A splat that is
read in several shardings is replicated, and every use takes a local slice.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from meshgen.ir.flatten_manual import is_open
from meshgen.ir.graph import Graph, Node, NodeSharding, Value
from meshgen.ir.predicates import is_constant, is_control, is_manual
from meshgen.ir.splats import splat_element
from meshgen.mesh import Mesh
from meshgen.ops.classes import ELEMENTWISE
from meshgen.ops.registry import Rules
from meshgen.ops.rules.rule import Rule
from meshgen.sharding.propagation.control import Flat
from meshgen.spec import Sharding


def without_splats(nodes: Sequence[Flat]) -> list[Flat]:
    """Return the nodes without those that compute splats. A node with an option or an annotation is never dropped.

    `nodes` must be in topological order.
    """
    splats: set[Value] = set()
    other_nodes: list[Flat] = []
    for flat in nodes:
        if _is_splat(flat.node, splats):
            splats.add(flat.node.result)
        else:
            other_nodes.append(flat)
    return other_nodes


def _is_splat(node: Node, splats: set[Value]) -> bool:
    if is_constant(node):
        return node.option is None and (not node.result.type.rank or splat_element(node.attrs.value) is not None)
    is_made_of_splats = bool(node.operands) and splats.issuperset(node.operands)
    return is_made_of_splats and node.option is None and (node.op == "broadcast_in_dim" or node.op in ELEMENTWISE)


def splat_shardings(graph: Graph, decided: Mapping[Node, NodeSharding], mesh: Mesh) -> dict[Node, NodeSharding]:
    """Return the shardings of the nodes that compute splats, which are all nodes missing from `decided`."""
    read_shardings: dict[Value, list[Sharding]] = {}
    shardings: dict[Node, NodeSharding] = {}
    rules = Rules()

    def note(node: Node, sharding: NodeSharding) -> None:
        for value, read in zip(node.operands, sharding.operands, strict=True):
            read_shardings.setdefault(value, []).append(read)

    splats = [node for node in _nodes(graph) if node not in decided]
    if splats:
        for node, sharding in decided.items():
            note(node, sharding)
    for node in reversed(splats):
        shardings[node] = _read_as(node, rules.of(node), read_shardings.get(node.result, ()), mesh)
        note(node, shardings[node])
    return shardings


def _nodes(graph: Graph) -> Iterator[Node]:
    """Yield the nodes that propagation sees. Control-flow ops are replaced by the nodes of their regions."""
    for node in graph.nodes:
        if is_control(node) or is_open(node):
            for region in node.regions:
                yield from _nodes(region)
        elif not is_manual(node):
            yield node


def _read_as(node: Node, rule: Rule, reads: Sequence[Sharding], mesh: Mesh) -> NodeSharding:
    """Return the shardings of a node that computes a splat: the result as all its uses read it, or else replicated.

    Axes of one device are left out.
    """
    result_sharding = Sharding(((),) * node.result.type.rank)
    if reads and all(read.dims == reads[0].dims for read in reads) and not any(read.partial for read in reads):
        result_sharding = Sharding(tuple(tuple(a for a in axes if mesh.axis_size(a) > 1) for axes in reads[0].dims))
    axes = {factor: result_sharding.dims[dim] for dim, factors in enumerate(rule.results[0]) for factor in factors[:1]}
    operands = tuple(
        Sharding(tuple(axes.get(factors[0], ()) if factors else () for factors in dims)) for dims in rule.operands
    )
    return NodeSharding(operands, (result_sharding,), tuple(axes.get(index, ()) for index in range(len(rule.factors))))
