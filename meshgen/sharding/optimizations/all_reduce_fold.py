"""An all_reduce of an all_reduce over other axes folds into one, and an all_reduce that is sliced into a reduce_scatter.

All rules hold for any per-device values: two devices are assumed to have equal values only where that is proven.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value
from meshgen.mesh import overlaps
from meshgen.sharding.optimizations.rewrite import Walk, merged_notes, price, price_of, walk

_IDEMPOTENT = ("max", "min", "and", "or")


@module_pass("all-reduce-fold", "materialize", "optimize", "partition", applies="unless dearer")
def all_reduce_fold(module: Module, context: Compilation) -> Module:
    """Before: `all_reduce(all_reduce(x) on a) on b`, `all_slice(all_reduce(x) on a, b) on a`, `all_gather(reduce_scatter(x))`.

    After: `all_reduce(x) on a, b`, `all_reduce(reduce_scatter(x) on a) on b`, `all_reduce(x)`. The inner one has no other
    use. A reduction of a value that provably is the same on all devices (local programs) is the value, or a multiple of it.
    """
    return walk(module, context, _fold, of=_FOLDS.keys())


def _fold(node: Node, walk: Walk) -> Sequence[Value] | None:
    if node.op == "all_reduce" and (found := _of_equal_values(node, walk)):
        return found
    inner = walk.producers.get(node.operands[0])
    wanted = "reduce_scatter" if node.op == "all_gather" else "all_reduce"
    if inner is None or inner.op != wanted or not walk.single(inner.result):
        return None
    return _FOLDS[node.op](node, inner, walk)


def _of_equal_values(node: Node, walk: Walk) -> Sequence[Value] | None:
    """A reduction of a value that all devices of a group have alike moves nothing."""
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
    kind, axes, more = node.attrs.kind, tuple(inner.attrs.axes), tuple(node.attrs.axes)
    if inner.attrs.kind != kind:
        return None
    if set(more) <= set(axes) and kind in _IDEMPOTENT:
        return [node.operands[0]] if node.operands[0].sharding == node.result.sharding else None
    if any(overlaps(a, b) for a in axes for b in more):
        return None  # a sum over the same axis twice is not the sum over it once
    together = tuple(sorted((*axes, *more), key=walk.mesh.order))
    attrs, notes = {"axes": together, "kind": kind}, merged_notes([inner, node], "two all_reduces folded into one")
    sharding = node.result.sharding
    return [walk.emit("all_reduce", inner.operands, attrs, node.result, sharding, loc=node.loc, notes=notes)]


def _reduce_and_slice(node: Node, inner: Node, walk: Walk) -> Sequence[Value] | None:
    """A reduce_scatter over the sliced axes; over the others, which only local programs have, the tiles are reduced."""
    sliced = tuple(node.attrs.axes)
    rest = tuple(axis for axis in inner.attrs.axes if axis not in sliced)
    is_whole = len(rest) + len(sliced) == len(inner.attrs.axes)
    if not is_whole or (rest and node.result.sharding is not None):
        return None
    attrs = {"axes": sliced, "dim": node.attrs.dim, "kind": inner.attrs.kind}
    steps = [price("reduce_scatter", attrs, inner.operands[0], node.result, walk.mesh)]
    if rest:
        steps.append(price("all_reduce", {**attrs, "axes": rest}, node.result, node.result, walk.mesh))
    if sum(step.ring_bytes for step in steps) > price_of(inner, walk.mesh).ring_bytes:
        return None  # fewer rows than devices: the scattered rows are padded to one for each
    if rest and sum(step.seconds for step in steps) > price_of(inner, walk.mesh).seconds:
        return None
    notes, sharding = merged_notes([inner, node], "all_reduce and slice joined"), node.result.sharding
    scattered = walk.emit("reduce_scatter", inner.operands, attrs, node.result, sharding, loc=node.loc, notes=notes)
    if not rest:
        return [scattered]
    more, notes = inner.attrs | {"axes": rest}, merged_notes([inner], "of the tile that is kept")
    return [walk.emit("all_reduce", [scattered], more, node.result, None, loc=node.loc, notes=notes)]


def _scatter_and_gather(node: Node, inner: Node, walk: Walk) -> Sequence[Value] | None:
    """As many bytes in one collective instead of two."""
    is_same = tuple(node.attrs.axes) == tuple(inner.attrs.axes) and node.attrs.dim == inner.attrs.dim
    start, end = inner.operands[0], node.result
    if not is_same or start.type != end.type or start.sharding is not None:
        return None
    attrs = {"axes": inner.attrs.axes, "kind": inner.attrs.kind}
    if price("all_reduce", attrs, start, end, walk.mesh).seconds > sum(
        price_of(n, walk.mesh).seconds for n in (inner, node)
    ):
        return None
    notes = merged_notes([inner, node], "scattered and gathered again: an all_reduce")
    return [walk.emit("all_reduce", inner.operands, attrs, end, None, loc=node.loc, notes=notes)]


_FOLDS = {"all_reduce": _reduce_twice, "all_slice": _reduce_and_slice, "all_gather": _scatter_and_gather}
