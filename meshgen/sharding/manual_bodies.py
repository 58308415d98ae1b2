"""Partition the bodies of manual computations over their free axes, at stage `materialize`.

Free axes are the mesh axes that a manual computation does not list as manual. Afterwards every manual computation
covers all axes that it uses, and its body works on the tiles of one device.

A reshard in the body (permute, retile, update_halo) moves tiles over free axes only. Devices with different coordinates
on a manual axis hold independent tiles, which must not be mixed. To keep them apart, the shardings of the reshard
become partial along the manual axes, as if the tile of each device were a separate summand.
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

# Op name that marks a collective which the user wrote in a manual body. Shardings around the collective do not have its
# axes.
ON_TILES = "on_tiles"


class OnTiles(Attributes):
    """The op and attributes of a collective that was marked with `ON_TILES`."""

    op: str
    attrs: Attributes


def partition_manual_body(node: Node, body: Graph, operands: list[Value], mesh: Mesh) -> Node:
    """Return a manual computation over all axes that it uses, given its materialized body.

    Raises ShardingError or ProgramError for nodes that cannot be partitioned.
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
    """Return a body's graph with its collectives marked, so that `materialize` does not mistake them for reshards."""
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
    """Return the body with reshards that move no data between devices whose coordinates on the `manual` axes differ."""

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
    """Return the sharding, partial along `axes` as well.

    The added axes get the reduction kind of the existing partial axes, so that a reshard can still move the latter.
    """
    kind = next((kind for _, kind in sharding.partial), picked_kind(dtype))
    added = tuple((axis, kind) for axis in axes if axis not in sharding.partial_axes)
    return sharding.with_partial(tuple(sorted((*sharding.partial, *added), key=lambda pair: mesh.order(pair[0]))))


@partitioner(ON_TILES)
def on_tiles(site: Site) -> list[Value]:
    return site.clone()
