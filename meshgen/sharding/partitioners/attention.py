"""Partitioner of attention: a device computes its rows and heads, with the positions that they have in the whole."""

from __future__ import annotations

from dataclasses import replace

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.factors import FIXED, Factors
from meshgen.ops.types.attention import POSITION
from meshgen.sharding.partitioners.registry import Site, partitioner, sharding_of


@partitioner("attention")
def attention(site: Site) -> list[Value]:
    """A split factor whose positions the regions take gets a 0-d operand, the first position of the device."""
    node, builder = site.node, site.builder
    factors = Factors.of(node)
    rows = sharding_of(node.results[1]).canonical(site.mesh)
    axes = {name: rows.dims[dim] for dim, name in enumerate(factors.rows)}
    local = dict(zip(factors.rows, site.local_types()[1].sizes, strict=True))
    split = [name for name in node.attrs.positions if axes.get(name)]
    starts = [builder.tile_start(axes[name], local[name]) for name in split]
    left, arrow, right = node.attrs.factors.partition("->")
    text = f"{', '.join([left.strip(), *['()'] * len(split)])} {arrow}{right}"
    numbers = [node.attrs.positions.index(name) for name in split]
    regions = tuple(_with_starts(region, len(factors.operands) - FIXED, numbers) for region in node.regions)
    moved = replace(node, regions=regions)
    return replace(site, node=moved).clone([*site.operands, *starts], factors=text)


def _with_starts(region: Graph, elements: int, numbers: list[int]) -> Graph:
    """A region that takes further elements, and adds them to the positions of these numbers."""
    starts = [Value(POSITION, loc=region.inputs[0].loc) for _ in numbers]
    first = 1 + elements
    inputs = [*region.inputs[:first], *starts, *region.inputs[first:]]
    nodes: list[Node] = []
    for start, number in zip(starts, numbers, strict=True):
        position = region.inputs[first + number]
        local = Value(POSITION, position.name, loc=position.loc)
        inputs[first + len(starts) + number] = local
        nodes.append(Node("add", [local, start], [position], loc=position.loc))
    return Graph(region.name, inputs, nodes + region.nodes, list(region.outputs))
