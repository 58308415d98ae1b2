"""An all_reduce whose result is only used in a narrower type becomes a reduce_scatter and a gather of that type.

Works on a local program (stage partition). The sum is made in the wide type as before, so no precision is lost; the gather
afterwards moves half the bytes. Between the two, each device computes on its tile only.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Module, Node, Value
from meshgen.ops.classes import ELEMENTWISE
from meshgen.sharding.optimizations.rewrite import (
    Price,
    Walk,
    merged_notes,
    price,
    price_of,
    walk,
)
from meshgen.sharding.optimizations.tiled import tile_of


@module_pass("all-reduce-decompose", "partition", applies="unless dearer", requires_ops=("all_reduce",))
def all_reduce_decompose(module: Module, context: Compilation) -> Module:
    """Before: `convert (tanh (all_reduce %x : f32)) : bf16`.

    After: `all_gather (convert (tanh (reduce_scatter %x : f32)) : bf16)`, if the cost model predicts less time. Other
    operands of the ops in between are the same on all devices, and no value there has another use.
    """
    return walk(module, context, _decompose, of={"convert"})


def _decompose(node: Node, walk: Walk) -> Sequence[Value] | None:
    if node.result.sharding is not None or not _is_narrower(node):
        return None
    found = _chain(node, walk)
    if found is None:
        return None
    reduction, chain = found
    count = walk.mesh.group_size(tuple(reduction.attrs.axes))
    sizes = node.result.type.sizes
    dims = [d for d, size in enumerate(sizes) if size and size % count == 0]
    if count == 1 or not dims or not _pays(reduction, node, dims[0], count, walk):
        return None
    return _write_tiled_chain(reduction, chain, node, dims[0], count, walk)


def _is_narrower(node: Node) -> bool:
    return node.result.type.numpy_dtype.itemsize < node.operands[0].type.numpy_dtype.itemsize


def _chain(node: Node, walk: Walk) -> tuple[Node, list[Node]] | None:
    """The reduction before a cast, and the element-wise ops from it to the cast."""
    chain = [node]
    for _ in range(DEFAULT.search.chain):
        at = chain[-1]
        makers = [(value, walk.producers.get(value)) for value in at.operands]
        made = [(v, m) for v, m in makers if m and walk.single(v) and (m.op == "all_reduce" or m.op in ELEMENTWISE)]
        reduced = [pair for pair in made if pair[1].op == "all_reduce"] or made
        if len(reduced) != 1 or any(v.type.rank and v.type.sizes != node.result.type.sizes for v in at.operands):
            return None
        value, maker = reduced[0]
        if maker.op == "all_reduce":
            others = [
                other for each in chain for other in each.operands if other not in (value, *(n.result for n in chain))
            ]
            is_common = all(walk.is_uniform(other, tuple(maker.attrs.axes)) for other in others)
            return (maker, chain[::-1]) if is_common and value.type.sizes == node.result.type.sizes else None
        chain.append(maker)
    return None


def _pays(reduction: Node, node: Node, dim: int, count: int, walk: Walk) -> bool:
    whole, before = reduction.operands[0], price_of(reduction, walk.mesh)
    attrs = reduction.attrs | {"dim": dim}
    wide, narrow = (Value(tile_of(v.type, dim, count)) for v in (whole, node.result))
    after: list[Price] = [
        price("reduce_scatter", attrs, whole, wide, walk.mesh),
        price("all_gather", attrs, narrow, node.result, walk.mesh),
    ]
    seconds = sum(step.seconds for step in after)
    return sum(step.ring_bytes for step in after) < before.ring_bytes and seconds < before.seconds


def _write_tiled_chain(
    reduction: Node, chain: Sequence[Node], node: Node, dim: int, count: int, walk: Walk
) -> Sequence[Value]:
    axes, attrs = reduction.attrs.axes, reduction.attrs | {"dim": dim}
    notes = merged_notes([reduction], "only tiles are reduced, and gathered in the narrower type")

    def tile(value: Value) -> Value:
        return Value(tile_of(value.type, dim, count), value.name, None, value.loc)

    made = {
        reduction.result: walk.emit(
            "reduce_scatter", reduction.operands, attrs, tile(reduction.result), None, loc=reduction.loc, notes=notes
        )
    }
    for op in chain:
        for value in op.operands:
            if value.type.rank and value not in made:
                made[value] = walk.emit("all_slice", [value], {"axes": axes, "dim": dim}, tile(value), None, loc=op.loc)
        operands = [made.get(value, value) for value in op.operands]
        made[op.result] = walk.emit(op.op, operands, op.attrs, tile(op.result), None, loc=op.loc)
    ends = {"axes": axes, "dim": dim}
    return [walk.emit("all_gather", [made[node.result]], ends, node.result, None, loc=reduction.loc, notes=notes)]
