"""Fold two all_reduces over different axes into one, or an all_reduce and a slice of the result into a reduce_scatter.

    before   %1 = all_reduce %x on a   %2 = all_reduce %1 on b
    after    %2 = all_reduce %x on a, b

    before   %1 = all_reduce %x on a, b   %2 = all_slice %1 on a
    after    %1 = reduce_scatter %x on a   %2 = all_reduce %1 on b

    before   %1 = reduce_scatter %x   %2 = all_gather %1
    after    %2 = all_reduce %x

The rules hold for any per-device values: two devices are assumed to have equal values only if that is proven.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value
from meshgen.mesh import overlaps
from meshgen.sharding.optimizations.walk import Walk, merged_notes, price, price_of, walk

_IDEMPOTENT = ("max", "min", "and", "or")


@module_pass("all-reduce-fold", "materialize", "optimize", "partition", applies="unless more expensive")
def all_reduce_fold(module: Module, context: Compilation) -> Module:
    """Return the module with pairs of collectives folded into one collective, if at least one of each pair is a
    reduction.

    The first collective must have no other use. In a local program, a reduction of a value that is provably equal on
    all devices becomes the value itself, or a multiple of it.
    """
    return walk(module, context, _fold, of=_FOLDS.keys())


def _fold(node: Node, walk: Walk) -> Sequence[Value] | None:
    if node.op == "all_reduce" and (unreduced := _of_equal_values(node, walk)):
        return unreduced
    inner = walk.producers.get(node.operands[0])
    inner_op = "reduce_scatter" if node.op == "all_gather" else "all_reduce"
    if inner is None or inner.op != inner_op or not walk.single(inner.result):
        return None
    return _FOLDS[node.op](node, inner, walk)


def _of_equal_values(node: Node, walk: Walk) -> Sequence[Value] | None:
    """Replace a reduction of a value that is equal on all devices of a group by a multiple of the value, without
    communication.
    """
    value, kind, axes = node.operands[0], node.attrs.kind, tuple(node.attrs.axes)
    if value.sharding is not None or not walk.is_uniform(value, axes):
        return None
    if kind in _IDEMPOTENT:
        return [value]
    if kind != "sum" or value.type.dtype == "i1":
        return None
    count = np.broadcast_to(np.asarray(walk.mesh.group_size(axes)).astype(value.type.numpy_dtype), value.type.sizes)
    times = walk.emit("constant", [], {"value": count}, value, None, loc=node.loc)
    return [walk.emit("multiply", [value, times], {}, node.result, None, loc=node.loc)]


def _reduce_twice(node: Node, inner: Node, walk: Walk) -> Sequence[Value] | None:
    kind, axes, outer_axes = node.attrs.kind, tuple(inner.attrs.axes), tuple(node.attrs.axes)
    if inner.attrs.kind != kind:
        return None
    if set(outer_axes) <= set(axes) and kind in _IDEMPOTENT:
        return [node.operands[0]] if node.operands[0].sharding == node.result.sharding else None
    if any(overlaps(a, b) for a in axes for b in outer_axes):
        return None  # summing twice over an axis differs from summing once
    all_axes = tuple(sorted((*axes, *outer_axes), key=walk.mesh.order))
    attrs, notes = {"axes": all_axes, "kind": kind}, merged_notes([inner, node], "two all_reduces folded into one")
    sharding = node.result.sharding
    return [walk.emit("all_reduce", inner.operands, attrs, node.result, sharding, loc=node.loc, notes=notes)]


def _reduce_and_slice(node: Node, inner: Node, walk: Walk) -> Sequence[Value] | None:
    """Replace an all_reduce and a slice by a reduce_scatter over the sliced axes.

    In local programs, an all_reduce of the tiles over the remaining axes follows.
    """
    sliced = tuple(node.attrs.axes)
    rest = tuple(axis for axis in inner.attrs.axes if axis not in sliced)
    is_contained = len(rest) + len(sliced) == len(inner.attrs.axes)
    if not is_contained or (rest and node.result.sharding is not None):
        return None
    attrs = {"axes": sliced, "dim": node.attrs.dim, "kind": inner.attrs.kind}
    steps = [price("reduce_scatter", attrs, inner.operands[0], node.result, walk.mesh)]
    if rest:
        steps.append(price("all_reduce", {**attrs, "axes": rest}, node.result, node.result, walk.mesh))
    if sum(step.ring_bytes for step in steps) > price_of(inner, walk.mesh).ring_bytes:
        return None  # With fewer rows than devices, the scattered rows are padded to one per device.
    if rest and sum(step.seconds for step in steps) > price_of(inner, walk.mesh).seconds:
        return None
    notes, sharding = merged_notes([inner, node], "all_reduce and slice joined"), node.result.sharding
    scattered = walk.emit("reduce_scatter", inner.operands, attrs, node.result, sharding, loc=node.loc, notes=notes)
    if not rest:
        return [scattered]
    reduce_attrs, notes = inner.attrs | {"axes": rest}, merged_notes([inner], "of the tile only")
    return [walk.emit("all_reduce", [scattered], reduce_attrs, node.result, None, loc=node.loc, notes=notes)]


def _scatter_and_gather(node: Node, inner: Node, walk: Walk) -> Sequence[Value] | None:
    """Replace a reduce_scatter and an all_gather by one all_reduce, unless the all_reduce takes longer."""
    is_same = tuple(node.attrs.axes) == tuple(inner.attrs.axes) and node.attrs.dim == inner.attrs.dim
    start, end = inner.operands[0], node.result
    if not is_same or start.type != end.type or start.sharding is not None:
        return None
    attrs = {"axes": inner.attrs.axes, "kind": inner.attrs.kind}
    if price("all_reduce", attrs, start, end, walk.mesh).seconds > sum(
        price_of(n, walk.mesh).seconds for n in (inner, node)
    ):
        return None
    notes = merged_notes([inner, node], "reduce_scatter and all_gather joined into an all_reduce")
    return [walk.emit("all_reduce", inner.operands, attrs, end, None, loc=node.loc, notes=notes)]


_FOLDS = {"all_reduce": _reduce_twice, "all_slice": _reduce_and_slice, "all_gather": _scatter_and_gather}
