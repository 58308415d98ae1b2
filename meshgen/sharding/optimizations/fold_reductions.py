"""Collectives that feed each other become one (the RFC's AllReduce Folder, and all_reduce + slice).

All rules hold for any per-device values: nothing is assumed to be equal on two devices.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.graph import Module, Node, Value
from meshgen.mesh import overlaps
from meshgen.sharding.optimizations.rewrite import Walk, merged_why, price, price_of, walk

_IDEMPOTENT = ("max", "min", "and", "or")


def fold_reductions(module: Module) -> Module:
    """Before: `all_reduce(all_reduce(x) on a) on b`, `all_slice(all_reduce(x) on a) on a`.

    After: `all_reduce(x) on a, b`, `reduce_scatter(x) on a`. The inner one has no other use.
    """
    return walk(module, _fold)


def _fold(node: Node, walk: Walk) -> Sequence[Value] | None:
    if node.op not in ("all_reduce", "all_slice"):
        return None
    inner = walk.producers.get(node.operands[0])
    if inner is None or inner.op != "all_reduce" or not walk.single(inner.result):
        return None
    return _reduce_twice(node, inner, walk) if node.op == "all_reduce" else _reduce_and_slice(node, inner, walk)


def _reduce_twice(node: Node, inner: Node, walk: Walk) -> Sequence[Value] | None:
    kind, axes, more = node.attrs["kind"], tuple(inner.attrs["axes"]), tuple(node.attrs["axes"])
    if inner.attrs["kind"] != kind:
        return None
    if set(more) <= set(axes) and kind in _IDEMPOTENT:
        return [node.operands[0]] if node.operands[0].sharding == node.result.sharding else None
    if any(overlaps(a, b) for a in axes for b in more):
        return None  # a sum over the same axis twice is not the sum over it once
    together = tuple(sorted((*axes, *more), key=walk.mesh.order))
    attrs = {"axes": together, "kind": kind} | merged_why([inner, node], "two all_reduces folded into one")
    return [walk.emit("all_reduce", inner.operands, attrs, node.result, node.result.sharding, loc=node.loc)]


def _reduce_and_slice(node: Node, inner: Node, walk: Walk) -> Sequence[Value] | None:
    if sorted(node.attrs["axes"]) != sorted(inner.attrs["axes"]):
        return None
    attrs = {"axes": node.attrs["axes"], "dim": node.attrs["dim"], "kind": inner.attrs["kind"]}
    attrs |= merged_why([inner, node], "all_reduce and slice joined")
    joined = price("reduce_scatter", attrs, inner.operands[0], node.result, walk.mesh)
    if joined.ring_bytes > price_of(inner, walk.mesh).ring_bytes:
        return None  # fewer rows than devices: the scattered rows are padded to one for each
    return [walk.emit("reduce_scatter", inner.operands, attrs, node.result, node.result.sharding, loc=node.loc)]
