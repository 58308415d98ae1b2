"""Fold consecutive gathers, slices, reduce_scatters or shifts along one dim into a single collective.

    before   %1 = all_gather %x on b   %2 = all_gather %1 on a       before   %1 = shift %x by 1   %2 = shift %1 by 2
    after    %2 = all_gather %x on a, b                              after    %2 = shift %x by 3

The rules hold for any per-device values: no two devices are assumed to have equal values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.attributes.sharding import reduction_of
from meshgen.ir.graph import Module, Node, Value
from meshgen.mesh import overlaps
from meshgen.sharding.optimizations.walk import Walk, local_type, merged_notes, price, price_of, walk

_CHAINED = {"all_gather", "all_slice", "reduce_scatter", "shift"}


@module_pass("collective-chain-fold", "materialize", "optimize", "partition", applies="unless more expensive")
def collective_chain_fold(module: Module, context: Compilation) -> Module:
    """Return the module with folded chains.

    A gather followed by a slice over the same axes in another order permutes tiles: it becomes one `permute_pairs`. The
    inner collective must have no other use, and the folded one must not take longer.
    """
    return walk(module, context, _join, of=_CHAINED)


def _join(node: Node, walk: Walk) -> Sequence[Value] | None:
    inner = walk.producers.get(node.operands[0])
    if inner is None or inner.op not in (node.op, "all_gather") or not walk.single(inner.result):
        return None
    if inner.op == node.op:
        return _shifted(node, inner, walk) if node.op == "shift" else _along_dim(node, inner, walk)
    return _exchanged(node, inner, walk) if node.op == "all_slice" else None


def _along_dim(node: Node, inner: Node, walk: Walk) -> Sequence[Value] | None:
    outer_axes, inner_axes = tuple(node.attrs.axes), tuple(inner.attrs.axes)
    same = node.attrs.dim == inner.attrs.dim and reduction_of(node.attrs) == reduction_of(inner.attrs)
    if not same or any(overlaps(a, b) for a in outer_axes for b in inner_axes) or not _nests(node, inner, walk):
        return None
    # In a chain of gathers, the outer gather's axes are major. In a chain of slices, the inner slice's axes are major.
    axes = outer_axes + inner_axes if node.op == "all_gather" else inner_axes + outer_axes
    return _emit(node.op, {**node.attrs, "axes": axes}, node, inner, walk)


def _nests(node: Node, inner: Node, walk: Walk) -> bool:
    """Whether each coarser tile consists of complete finer tiles.

    Otherwise the padding of a short last tile would end up between rows.
    """
    finer, collective = (inner.operands[0], inner) if node.op == "all_gather" else (node.result, node)
    dim, count = node.attrs.dim, walk.mesh.group_size(tuple(collective.attrs.axes))
    rows, tile = (local_type(value, walk.mesh).sizes[dim] for value in (inner.result, finer))
    return rows == count * tile


def _shifted(node: Node, inner: Node, walk: Walk) -> Sequence[Value] | None:
    axis = node.attrs.shift_axis
    if axis != inner.attrs.shift_axis or not (node.attrs.rotate and inner.attrs.rotate):
        return None
    offset = (node.attrs.offset + inner.attrs.offset) % walk.mesh.axis_size(axis)
    return _emit("shift", {**node.attrs, "offset": offset}, node, inner, walk) if offset else inner.operands


def _exchanged(node: Node, inner: Node, walk: Walk) -> Sequence[Value] | None:
    """Replace a gather, and a slice over the same axes in another order, by a permutation of tiles.

    Tile i of the gathered tensor belongs to device i of the gather's group. Device j in the order of the slice's group
    takes tile j.
    """
    gathered, sliced = tuple(inner.attrs.axes), tuple(node.attrs.axes)
    is_local = node.result.sharding is None and inner.operands[0].sharding is None
    is_other_order = gathered != sliced and sorted(gathered) == sorted(sliced)
    if not is_local or not is_other_order or node.attrs.dim != inner.attrs.dim:
        return None
    if inner.operands[0].type != node.result.type or not _nests(node, inner, walk):
        return None
    groups = walk.mesh.groups(gathered)
    pairs = sorted((group[walk.mesh.index(target, sliced)], target) for group in groups for target in group)
    return _emit("permute_pairs", {"axes": gathered, "pairs": tuple(pairs)}, node, inner, walk)


def _emit(op: str, attrs: dict[str, Any], node: Node, inner: Node, walk: Walk) -> Sequence[Value] | None:
    joint = price(op, attrs, inner.operands[0], node.result, walk.mesh)
    separate = [price_of(collective, walk.mesh) for collective in (inner, node)]
    if joint.ring_bytes > sum(p.ring_bytes for p in separate) or joint.seconds > sum(p.seconds for p in separate):
        return None
    notes = merged_notes([inner, node], f"two joined into one {op}")
    return [walk.emit(op, inner.operands, attrs, node.result, node.result.sharding, loc=node.loc, notes=notes)]
