"""Bodies of manual computations that free axes split, written out for one device at `materialize`.

Every later stage then has a manual computation over all axes that it uses, whose body works on its own tiles.
"""

from __future__ import annotations

from dataclasses import replace

from meshgen.errors import ShardingError
from meshgen.ir.graph import Graph, Node, NodeSharding, Value
from meshgen.ir.infer.control import MANUAL_OPS
from meshgen.ir.regions import all_nodes
from meshgen.mesh import Mesh, split_ref
from meshgen.sharding.partition import graph_faults, local_body
from meshgen.sharding.partitioners.registry import Site, partitioner

ON_TILES = "on_tiles"  # a collective of a body while that is written out: its own axes are not those of its shardings


def written_out(node: Node, body: Graph, operands: list[Value], mesh: Mesh) -> Node:
    """A manual computation over all axes that it uses, from a materialised body.

    Raises ShardingError, ProgramError for what cannot be partitioned.
    """
    lies = node.sharding
    assert lies is not None, "propagation has seen the node"
    if faults := graph_faults(body, mesh):
        raise ShardingError(*faults)
    results = [Value(v.type, v.name, s, v.loc) for v, s in zip(node.results, lies.results, strict=True)]
    used = dict.fromkeys(split_ref(a)[0] for s in (*lies.operands, *lies.results) for a in s.used_axes)
    local = _unwrapped(local_body(body, mesh, {}))
    axes = tuple(name for name in mesh.names if name in used or name in node.attrs["axes"] or name in _axes_in(local))
    attrs = {"in_shardings": lies.operands, "out_shardings": lies.results, "axes": axes}
    return Node("manual", operands, results, attrs, node.loc, NodeSharding(lies.operands, lies.results), (local,))


def wrapped(graph: Graph) -> Graph:
    """The graph of a body with its collectives marked as such, so that they are not taken for reshards."""
    nodes = [replace(node, regions=tuple(map(wrapped, node.regions))) for node in graph.nodes]
    for node in nodes:
        if node.op in (*MANUAL_OPS, "process_index"):
            node.op, node.attrs = ON_TILES, {"op": node.op, "attrs": node.attrs}
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def _unwrapped(graph: Graph) -> Graph:
    nodes = [replace(node, regions=tuple(map(_unwrapped, node.regions))) for node in graph.nodes]
    for node in nodes:
        if node.op == ON_TILES:
            node.op, node.attrs = node.attrs["op"], node.attrs["attrs"]
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def _axes_in(graph: Graph) -> set[str]:
    return {split_ref(axis)[0] for node in all_nodes(graph) for axis in node.attrs.get("axes", ())}


@partitioner(ON_TILES)
def on_tiles(site: Site) -> list[Value]:
    return site.clone()
