"""Reduce once after an element-wise op instead of once per operand (the RFC's two Reassociate passes)."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.graph import Module, Node, Value
from meshgen.sharding.optimizations.rewrite import Walk, meaning, merged_why, walk

_COMBINES = {"add": "sum", "subtract": "sum", "multiply": "product", "maximum": "max", "minimum": "min",
             "and": "and", "or": "or", "xor": "xor"}  # fmt: skip


def reassociate(module: Module) -> Module:
    """Before: `add(all_reduce(x), all_reduce(y))`.   After: `all_reduce(add(x, y))`; reduce_scatter alike.

    Only where both reductions are the same and have no other use, and the op combines as they do. Sums of
    floats are added in another order.
    """
    return walk(module, _reassociate)


def _reassociate(node: Node, walk: Walk) -> Sequence[Value] | None:
    kind = _COMBINES.get(node.op)
    makers = [walk.producers.get(value) for value in node.operands]
    reductions = [made for made in makers if made and made.op in ("all_reduce", "reduce_scatter")]
    if kind is None or len(reductions) != 2 or (kind in ("sum", "product") and node.result.type.dtype == "i1"):
        return None  # i1 wraps: adding is no sum
    first, second = reductions
    if first.op != second.op or meaning(first.attrs) != meaning(second.attrs) or first.attrs["kind"] != kind:
        return None
    if any(walk.uses[value] != node.operands.count(value) for value in node.operands):
        return None
    (x,), (y,) = first.operands, second.operands
    if x.sharding != y.sharding or x.type != y.type:
        return None
    like = Value(x.type, node.result.name, None, node.result.loc)
    combined = walk.emit(node.op, [x, y], node.attrs, like, x.sharding, loc=node.loc)
    attrs = meaning(first.attrs) | merged_why([first, second], "reduced once, after the operands are combined")
    return [walk.emit(first.op, [combined], attrs, node.result, node.result.sharding, loc=node.loc)]
