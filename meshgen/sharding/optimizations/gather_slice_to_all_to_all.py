"""Replace an all_gather along one dim that is sliced along another dim by an all_to_all.

    before   %1 = all_gather %x along 0   %2 = all_slice %1 along 1      over the same axes
    after    %2 = all_to_all %x split 1 concat 0

The rewrite holds for any per-device values, since both ops go by positions in the group.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value
from meshgen.sharding.optimizations.walk import Walk, merged_notes, price, price_of, walk


@module_pass("gather-slice-to-all-to-all", "materialize", "optimize", "partition", applies="unless more expensive")
def gather_slice_to_all_to_all(module: Module, context: Compilation) -> Module:
    """Return the module with all_to_alls instead of gathers that are sliced. The gather must have no other use."""
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
        return None  # with fewer rows than devices, every block is padded to one row
    notes = merged_notes([inner, node], "gathered along one dim and sliced along another")
    sharding = node.result.sharding
    return [walk.emit("all_to_all", inner.operands, attrs, node.result, sharding, loc=node.loc, notes=notes)]
