"""Partitioner of attention and its gradients: a device computes its rows, heads or keys, with the positions that they have in the whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Value
from meshgen.ops.factors import FORWARD, GRADIENT, KEY_GRADIENT, KEYS, QUERIES, QUERY_GRADIENT, Factors, fixed
from meshgen.ops.types.attention import POSITION
from meshgen.sharding.partitioners.registry import Site, partitioner, sharding_of

_SUMMED = {FORWARD: (), QUERY_GRADIENT: (KEYS,), KEY_GRADIENT: (QUERIES, GRADIENT)}
"""The operands of the products that a gradient's results are, whose padding must be 0."""


@partitioner(FORWARD, QUERY_GRADIENT, KEY_GRADIENT)
def attention(site: Site) -> list[Value]:
    """A split factor whose positions the regions take gets a 0-d operand, the first position of the device.

    Where a sum has uneven tiles, what the padding adds is 0.
    """
    node, builder = site.node, site.builder
    factors = Factors.of(node)
    axes = _axes(site, factors)
    tiles = {name: _tile_rows(site, axes[name], factors.sizes[name]) for name in axes}
    kept = {name for names in factors.results for name in names}
    padded = [f for f in axes if f not in kept and axes[f] and tiles[f] * _devices(site, axes[f]) != factors.sizes[f]]
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
    rewriter = _Positions(len(node.operands) - fixed(node.op), node.attrs.positions, positions, split)
    regions = tuple(rewriter.rewritten(region, number, ends) for number, region in enumerate(node.regions))
    moved = replace(site, node=replace(node, regions=regions))
    return moved.clone([*operands, *starts], factors=text, positions=positions)


def _axes(site: Site, factors: Factors) -> dict[str, tuple[str, ...]]:
    """The axes of more than one device that split each factor."""
    node, found = site.node, dict[str, tuple[str, ...]]()
    for names, value in zip((*factors.operands, *factors.results), (*node.operands, *node.results), strict=True):
        for name, axes in zip(names, sharding_of(value).canonical(site.mesh).dims, strict=True):
            found[name] = axes or found.get(name, ())
    return found


def _devices(site: Site, axes: Sequence[str]) -> int:
    count = 1
    for axis in axes:
        count *= site.mesh.axis_size(axis)
    return count


def _tile_rows(site: Site, axes: Sequence[str], size: int) -> int:
    """Rows of a tile of a dim of this size."""
    return -(-size // _devices(site, axes))


class _Positions:
    """Rewrites regions that take further positions and the first positions of the device, `split` are those that have one."""

    def __init__(self, elements: int, before: Sequence[str], after: Sequence[str], split: Sequence[str]) -> None:
        self.elements, self.before, self.after, self.split = elements, before, after, split

    def rewritten(self, region: Graph, number: int, ends: Mapping[str, int]) -> Graph:
        """A region with positions in the whole; all but the first give 0 from the position on at which a factor ends."""
        first = len(region.inputs) - len(self.before)
        starts = {name: Value(POSITION) for name in self.split}
        local = {name: Value(POSITION, name) for name in self.after}
        out = Graph(region.name, [*region.inputs[:first], *starts.values(), *local.values()])
        builder = Builder(out)
        given = dict(zip(self.before, region.inputs[first:], strict=True))
        whole: dict[str, Value] = {}
        for name, value in local.items():
            if name in starts:
                value = builder.elementwise("add", value, starts[name])
            whole[name] = value
        renamed = {given[name]: whole[name] for name in given}
        nodes = [replace(node, operands=[renamed.get(v, v) for v in node.operands]) for node in region.nodes]
        (output,) = (renamed.get(v, v) for v in region.outputs)
        last = nodes[-1] if nodes and nodes[-1].op == "convert" and nodes[-1].result is output else None
        if not number or not ends:
            out.nodes += nodes
            out.outputs = [output]
            return out
        out.nodes += nodes[:-1] if last else nodes
        inside = _inside(builder, whole, ends)
        value = last.operands[0] if last else output
        value = builder.elementwise("select", inside, value, builder.splat(0, value.type))
        out.outputs = [builder.convert(value, output.type.dtype)]
        return out


def _inside(builder: Builder, whole: Mapping[str, Value], ends: Mapping[str, int]) -> Value:
    found = [builder.compare("LT", whole[name], builder.splat(end, POSITION)) for name, end in ends.items()]
    total = found[0]
    for each in found[1:]:
        total = builder.elementwise("and", total, each)
    return total
