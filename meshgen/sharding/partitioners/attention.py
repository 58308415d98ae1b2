"""Partitioner of attention and its gradients. A device computes its tile of rows, heads or keys, with their global
positions.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import reduce

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Value
from meshgen.ir.regions import rewired
from meshgen.ops.factors import FORWARD, GRADIENT, KEY_GRADIENT, KEYS, QUERIES, QUERY_GRADIENT, Factors
from meshgen.ops.types.attention import POSITION
from meshgen.sharding.partitioners.composites import factor_axes
from meshgen.sharding.partitioners.registry import Site, partitioner

_SUMMED = {FORWARD: (), QUERY_GRADIENT: (KEYS,), KEY_GRADIENT: (QUERIES, GRADIENT)}
"""op -> the operands that a matmul sums over rows, so that their padding must be 0"""


@partitioner(FORWARD, QUERY_GRADIENT, KEY_GRADIENT)
def attention(site: Site) -> list[Value]:
    """Write the op on tiles. Each split factor whose positions the regions use adds a 0-d operand: the device's first
    position.

    If a reduced factor has uneven tiles, its padding contributes 0.
    """
    node, builder = site.node, site.builder
    factors = Factors.of(node)
    axes = factor_axes(site)
    tiles = {name: -(-factors.sizes[name] // site.mesh.group_size(axes[name])) for name in axes}
    result_factors = {name for names in factors.results for name in names}
    padded = [
        f
        for f in axes
        if f not in result_factors and axes[f] and tiles[f] * site.mesh.group_size(axes[f]) != factors.sizes[f]
    ]
    positions = (*node.attrs.positions, *(f for f in padded if f not in node.attrs.positions))
    split = [name for name in positions if axes.get(name)]
    starts = [builder.tile_start(axes[name], tiles[name]) for name in split]
    operands = list(site.operands)
    for index in _SUMMED[node.op] if padded else ():
        dims = [dim for dim, name in enumerate(factors.operands[index]) if name in padded]
        operands[index] = builder.mask_padding(operands[index], node.operands[index], site.sharding(index), dims, 0)
    left, arrow, right = node.attrs.factors.partition("->")
    text = f"{', '.join([left.strip(), *['()'] * len(split)])} {arrow}{right}"
    ends = {name: factors.sizes[name] for name in padded}
    regions = tuple(
        _with_positions(region, node.attrs.positions, positions, split, ends if index else {})
        for index, region in enumerate(node.regions)
    )
    moved = replace(site, node=replace(node, regions=regions))
    row_keys = {"row_keys": node.attrs.row_keys or math.prod(factors.shape(factors.keys))} if node.op != FORWARD else {}
    return moved.clone([*operands, *starts], factors=text, positions=positions, **row_keys)


def _with_positions(region: Graph, before: Sequence[str], after: Sequence[str], split: Sequence[str],
                    ends: Mapping[str, int]) -> Graph:  # fmt: skip
    """Return a region that takes local positions in the tile, and computes with global positions.

    Args:
        before: the factors whose positions `region` takes.
        after: the factors whose positions the result takes, after the first positions of the device along `split`.
        ends: sizes of factors; the region returns 0 for positions beyond, which are padding.
    """
    value_count = len(region.inputs) - len(before)
    starts = {name: Value(POSITION) for name in split}
    local_positions = {name: Value(POSITION, name) for name in after}
    out = Graph(region.name, [*region.inputs[:value_count], *starts.values(), *local_positions.values()])
    builder = Builder(out)
    global_positions = {
        name: builder.elementwise("add", value, starts[name]) if name in starts else value
        for name, value in local_positions.items()
    }
    renamed = {value: global_positions[name] for name, value in zip(before, region.inputs[value_count:], strict=True)}
    nodes = [rewired(node, renamed) for node in region.nodes]
    (output,) = (renamed.get(v, v) for v in region.outputs)
    if not ends:
        out.nodes += nodes
        out.outputs = [output]
        return out
    last = region.nodes[-1] if region.nodes else None
    is_rounded = last is not None and last.op == "convert" and last.result is region.outputs[0]
    out.nodes += nodes[:-1] if is_rounded else nodes
    value = nodes[-1].operands[0] if is_rounded else output
    inside = [builder.compare("LT", global_positions[name], builder.splat(end, POSITION)) for name, end in ends.items()]
    is_inside = reduce(lambda left, right: builder.elementwise("and", left, right), inside)
    value = builder.elementwise("select", is_inside, value, builder.splat(0, value.type))
    out.outputs = [builder.convert(value, output.type.dtype)]
    return out
