"""A slice comes before the element-wise ops that make what is sliced: each device computes only its part."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from meshgen.ir.graph import Graph, Module, Node, NodeSharding, Value
from meshgen.mesh import overlaps
from meshgen.sharding.optimizations.rewrite import ELEMENTWISE, used_values
from meshgen.spec import Sharding


def raise_slices(module: Module) -> Module:
    """Before: `all_slice(add(x, y))`.   After: `add(all_slice(x), all_slice(y))`.

    Only where the op has no other use. A slice so comes next to the reduction or gather that it can join. One walk backwards.
    """
    uses = Counter(used_values(module.graph))
    return replace(module, graph=_graph(module.graph, uses))


def _graph(graph: Graph, uses: Counter[Value]) -> Graph:
    kept: list[Node] = []  # backwards
    producers = graph.producers()
    waiting: dict[Value, Node] = {}  # values that are used by this slice alone, and whose op can come after it

    def place(cut: Node) -> None:
        made = producers.get(cut.operands[0])
        if made and uses[cut.operands[0]] == 1 and _can_follow(made, cut):
            waiting[cut.operands[0]] = cut
        else:
            kept.append(cut)

    for node in reversed(graph.nodes):
        if node.op == "all_slice":
            place(node)
        elif node.results and node.results[0] in waiting:
            moved, slices = _swap(node, waiting.pop(node.results[0]))
            kept.append(moved)
            for cut in reversed(slices):
                place(cut)
        else:
            regions = tuple(_graph(region, uses) for region in node.regions)
            kept.append(replace(node, regions=regions) if regions else node)
    return Graph(graph.name, graph.inputs, kept[::-1], graph.outputs)


def _can_follow(node: Node, cut: Node) -> bool:
    if node.op not in ELEMENTWISE or node.result.sharding is None:
        return False
    known = [value.sharding for value in node.operands if value.type.rank]
    return all(s is not None and _is_free(s, node.result.sharding, cut) for s in known)


def _is_free(sharding: Sharding, result: Sharding, cut: Node) -> bool:
    used = any(overlaps(axis, new) for axis in sharding.used_axes for new in cut.attrs["axes"])
    return not used and sharding.dims == result.dims and not sharding.halo and not any(sharding.offsets)


def _swap(node: Node, cut: Node) -> tuple[Node, list[Node]]:
    """The op on slices, and the slices of its operands, each value once."""
    made: dict[Value, Node] = {}
    for value in node.operands:
        if value.type.rank and value not in made:
            made[value] = _slice(value, cut)
    operands = [made[value].result if value in made else value for value in node.operands]
    result = cut.result
    lies = NodeSharding(tuple(_lies(v) for v in operands), (_lies(result),), _lies(result).dims)
    attrs = dict(node.attrs)
    return Node(node.op, operands, [result], attrs, node.loc, lies), list(made.values())


def _slice(value: Value, cut: Node) -> Node:
    sharding, axes, dim = _lies(value), tuple(cut.attrs["axes"]), cut.attrs["dim"]
    dims = tuple(old + axes if d == dim else old for d, old in enumerate(sharding.dims))
    result = Value(value.type, value.name, Sharding(dims, sharding.partial), value.loc)
    return Node("all_slice", [value], [result], dict(cut.attrs), cut.loc)


def _lies(value: Value) -> Sharding:
    return value.sharding or Sharding.replicated(value.type.rank)
