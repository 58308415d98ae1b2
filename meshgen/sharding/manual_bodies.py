"""Write bodies of manual computations that free axes split out for one device, at `materialize`.

Every later stage then has a manual computation over all axes that it uses, whose body works on its own tiles.

A transfer in it (permute, retile, update_halo) is between shardings of a tile, over free axes: devices that differ along a
manual axis hold tiles of their own, which are not mixed. Its shardings express this as for any summand: they are partial along
the manual axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.errors import ShardingError
from meshgen.ir.attributes.base import Attributes
from meshgen.ir.graph import Graph, Node, NodeSharding, Value
from meshgen.mesh import Mesh, split_ref
from meshgen.ops.classes import ON_RANKS, RESHARDS
from meshgen.ops.rules.rule import picked_kind
from meshgen.ops.types.control import axes_in
from meshgen.sharding.partition import graph_faults, local_body
from meshgen.sharding.partitioners.registry import Site, partitioner
from meshgen.spec import Sharding

ON_TILES = "on_tiles"  # a collective of a body being written out: its axes are not those of its shardings


class OnTiles(Attributes):
    """What the collective is."""

    op: str
    attrs: Attributes


def written_out(node: Node, body: Graph, operands: list[Value], mesh: Mesh) -> Node:
    """A manual computation over all axes that it uses, from a materialised body.

    Raises ShardingError, ProgramError for nodes that cannot be partitioned.
    """
    sharding = node.sharding
    assert sharding is not None, "propagation sets the sharding of every node"
    if faults := graph_faults(body, mesh):
        raise ShardingError(*faults)
    results = [Value(v.type, v.name, s, v.loc, id=v.id) for v, s in zip(node.results, sharding.results, strict=True)]
    used = dict.fromkeys(split_ref(a)[0] for s in (*sharding.operands, *sharding.results) for a in s.used_axes)
    manual = tuple(name for name in mesh.names if name in node.attrs.axes)
    local = _kept_apart(_unwrapped(local_body(body, mesh, {})), manual, mesh)
    axes = tuple(name for name in mesh.names if name in used or name in manual or name in axes_in(local))
    attrs = {"in_shardings": sharding.operands, "out_shardings": sharding.results, "axes": axes}
    return Node(
        "manual", operands, results, attrs, node.loc, NodeSharding(sharding.operands, sharding.results), (local,)
    )


def wrapped(graph: Graph) -> Graph:
    """The graph of a body with its collectives marked as such, so that they are not taken for reshards."""
    nodes = [replace(node, regions=tuple(map(wrapped, node.regions))) for node in graph.nodes]
    for node in nodes:
        if node.op in ON_RANKS:
            node.op, node.attrs = ON_TILES, OnTiles(op=node.op, attrs=node.attrs)
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def _unwrapped(graph: Graph) -> Graph:
    nodes = [replace(node, regions=tuple(map(_unwrapped, node.regions))) for node in graph.nodes]
    for node in nodes:
        if node.op == ON_TILES:
            node.op, node.attrs = node.attrs.op, node.attrs.attrs
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def _kept_apart(graph: Graph, manual: Sequence[str], mesh: Mesh) -> Graph:
    """The graph with transfers that send nothing to devices with other manual coordinates."""

    def apart(value: object, dtype: str) -> object:
        return _partial_along(value, manual, dtype, mesh) if isinstance(value, Sharding) else value

    nodes: list[Node] = []
    for node in graph.nodes:
        attrs = node.attrs
        if node.op in RESHARDS:
            attrs = {name: apart(value, node.result.type.dtype) for name, value in attrs.items()}
        regions = tuple(_kept_apart(region, manual, mesh) for region in node.regions)
        nodes.append(replace(node, attrs=attrs, regions=regions))
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def _partial_along(sharding: Sharding, axes: Sequence[str], dtype: str, mesh: Mesh) -> Sharding:
    """The sharding, partial along further axes too, with the kind of those that it has: these may move."""
    kind = next((kind for _, kind in sharding.partial), picked_kind(dtype))
    added = tuple((axis, kind) for axis in axes if axis not in sharding.partial_axes)
    return sharding.with_partial(tuple(sorted((*sharding.partial, *added), key=lambda pair: mesh.order(pair[0]))))


@partitioner(ON_TILES)
def on_tiles(site: Site) -> list[Value]:
    return site.clone()
