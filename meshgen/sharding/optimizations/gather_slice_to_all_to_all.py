"""A gather along one dim that is sliced along another becomes an all_to_all."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value
from meshgen.sharding.optimizations.rewrite import Walk, merged_notes, price, price_of, walk


@module_pass("gather-slice-to-all-to-all", "materialize", "optimize", "partition", applies="unless dearer")
def gather_slice_to_all_to_all(module: Module, context: Compilation) -> Module:
    """Before: `all_slice(all_gather(x) along 0) along 1`, on the same axes.   After: `all_to_all(x) split 1 concat 0`.

    Holds for any per-device values: both ops go by positions in the group. The gather has no other use.
    """
    return walk(module, context, _exchange, of={"all_slice"})


def _exchange(node: Node, walk: Walk) -> Sequence[Value] | None:
    inner = walk.producers.get(node.operands[0])
    if inner is None or inner.op != "all_gather" or tuple(inner.attrs.axes) != tuple(node.attrs.axes):
        return None
    split, concat = node.attrs.dim, inner.attrs.dim
    if split == concat or not walk.single(inner.result):
        return None
    attrs = {"axes": node.attrs.axes, "split_dim": split, "concat_dim": concat}
    if (
        price("all_to_all", attrs, inner.operands[0], node.result, walk.mesh).ring_bytes
        > price_of(inner, walk.mesh).ring_bytes
    ):
        return None  # fewer rows than devices: every block is padded to one
    notes = merged_notes([inner, node], "gathered along one dim and sliced along another")
    sharding = node.result.sharding
    return [walk.emit("all_to_all", inner.operands, attrs, node.result, sharding, loc=node.loc, notes=notes)]
