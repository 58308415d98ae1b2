"""Partitioner of attention and its gradients: a device computes its rows, heads or keys, with the positions that they have in the whole."""

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
"""The operands of the products that a gradient's results are, whose padding must be 0."""


@partitioner(FORWARD, QUERY_GRADIENT, KEY_GRADIENT)
def attention(site: Site) -> list[Value]:
    """A split factor whose positions the regions take gets a 0-d operand, the first position of the device.

    Where a sum has uneven tiles, what the padding adds is 0.
    """
    node, builder = site.node, site.builder
    factors = Factors.of(node)
    axes = factor_axes(site)
    tiles = {name: -(-factors.sizes[name] // site.mesh.group_size(axes[name])) for name in axes}
    kept = {name for names in factors.results for name in names}
    padded = [
        f for f in axes if f not in kept and axes[f] and tiles[f] * site.mesh.group_size(axes[f]) != factors.sizes[f]
    ]
    positions = (*node.attrs.positions, *(f for f in padded if f not in node.attrs.positions))
    split = [name for name in positions if axes.get(name)]
    starts = [builder.tile_start(axes[name], tiles[name]) for name in split]
    operands = list(site.operands)
    for number in _SUMMED[node.op] if padded else ():
        dims = [dim for dim, name in enumerate(factors.operands[number]) if name in padded]
        operands[number] = builder.mask_padding(operands[number], node.operands[number], site.sharding(number), dims, 0)
    left, arrow, right = node.attrs.factors.partition("->")
    text = f"{', '.join([left.strip(), *['()'] * len(split)])} {arrow}{right}"
    ends = {name: factors.sizes[name] for name in padded}
    regions = tuple(
        _with_positions(region, node.attrs.positions, positions, split, ends if number else {})
        for number, region in enumerate(node.regions)
    )
    moved = replace(site, node=replace(node, regions=regions))
    row_keys = {"row_keys": node.attrs.row_keys or math.prod(factors.shape(factors.keys))} if node.op != FORWARD else {}
    return moved.clone([*operands, *starts], factors=text, positions=positions, **row_keys)


def _with_positions(region: Graph, before: Sequence[str], after: Sequence[str], split: Sequence[str],
                    ends: Mapping[str, int]) -> Graph:  # fmt: skip
    """Return a region that takes positions in the tile, and computes with those in the whole.

    Args:
        before: the factors whose positions the region takes.
        after: the factors whose positions the result takes, behind the first positions of the device along `split`.
        ends: sizes of factors; positions from there on are padding, for which the region gives 0.
    """
    first = len(region.inputs) - len(before)
    starts = {name: Value(POSITION) for name in split}
    local = {name: Value(POSITION, name) for name in after}
    out = Graph(region.name, [*region.inputs[:first], *starts.values(), *local.values()])
    builder = Builder(out)
    whole = {
        name: builder.elementwise("add", value, starts[name]) if name in starts else value
        for name, value in local.items()
    }
    renamed = {value: whole[name] for name, value in zip(before, region.inputs[first:], strict=True)}
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
    inside = [builder.compare("LT", whole[name], builder.splat(end, POSITION)) for name, end in ends.items()]
    is_inside = reduce(lambda left, right: builder.elementwise("and", left, right), inside)
    value = builder.elementwise("select", is_inside, value, builder.splat(0, value.type))
    out.outputs = [builder.convert(value, output.type.dtype)]
    return out
