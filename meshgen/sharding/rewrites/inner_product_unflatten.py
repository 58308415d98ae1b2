"""An inner product of flattened tensors contracts their original dims, so that splitting any of them needs no gather.

`jnp.vdot` flattens both operands; a dim made of several can be split by the major one's axes only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import needed_nodes
from meshgen.sharding.rewrites.bodies import in_bodies
from meshgen.sharding.rewrites.graph_passes import graph_pass


@graph_pass("inner-product-unflatten", applies="if cheaper", in_bodies=False)
def inner_product_unflatten(graph: Graph) -> Graph | None:
    """Before: `dot (reshape %x), (reshape %y)`, of one dim each.   After: `dot %x, %y` over all dims. None if there is none."""
    return _unflattened(graph, {})


def _unflattened(graph: Graph, outer: Mapping[Value, Node]) -> Graph | None:
    producers = {**outer, **graph.index.producers}
    inner = in_bodies(graph, lambda region: _unflattened(region, producers)) or graph
    nodes = [_without_flattening(node, producers) for node in inner.nodes]
    if all(new is old for new, old in zip(nodes, graph.nodes, strict=True)):
        return None
    return replace(graph, nodes=needed_nodes(nodes, graph.outputs, lambda node: node.op != "reshape"))


def _without_flattening(node: Node, producers: Mapping[Value, Node]) -> Node:
    if node.op != "dot_general" or node.result.type.rank or node.option is not None:
        return node
    makers = [producers.get(value) for value in node.operands]
    if any(made is None or made.op != "reshape" for made in makers):
        return node
    sources = [made.operands[0] for made in makers if made]
    if sources[0].type.sizes != sources[1].type.sizes or any(value.type.rank != 1 for value in node.operands):
        return node
    dims = tuple(range(sources[0].type.rank))
    return replace(node, operands=sources, attrs=node.attrs | {"lhs_contract": dims, "rhs_contract": dims})
