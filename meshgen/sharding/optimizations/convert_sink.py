"""Sink a widening convert below a collective, which then sends the narrower type.

    before   %1 = convert %x : bf16 -> f32   %2 = all_gather %1
    after    %1 = all_gather %x              %2 = convert %1 : bf16 -> f32

Reductions by max and min are included, since widening does not change them. Sums are not: they would round to the
narrower type.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value, is_float
from meshgen.ops.classes import MOVES, REDUCED_EVERYWHERE
from meshgen.sharding.optimizations.walk import Walk, price, walk


@module_pass("convert-sink", "materialize", "optimize", "partition", applies="unless more expensive")
def convert_sink(module: Module, context: Compilation) -> Module:
    """Return the module with widening converts below collectives."""
    return walk(module, context, _narrow, of=MOVES | REDUCED_EVERYWHERE, after={"convert"})


def _narrow(node: Node, walk: Walk) -> Sequence[Value] | None:
    if not (node.op in MOVES or (node.op in REDUCED_EVERYWHERE and node.attrs.kind in ("max", "min"))):
        return None
    cast = walk.producers.get(node.operands[0])
    if cast is None or cast.op != "convert":
        return None
    source = cast.operands[0]
    old, new = source.type, cast.result.type
    if old.numpy_dtype.itemsize >= new.numpy_dtype.itemsize or (
        node.op not in MOVES and not _keeps_order(old.dtype, new.dtype)
    ):
        return None
    like = Value(old.with_shape(node.result.type.shape), source.name, node.result.sharding, node.result.loc)
    if price(node.op, node.attrs, source, like, walk.mesh).ring_bytes == 0:
        return None
    sharding = node.result.sharding
    moved = walk.emit(node.op, [source], node.attrs, like, sharding, loc=node.loc, notes=node.notes)
    return [walk.emit("convert", [moved], cast.attrs, node.result, sharding, loc=cast.loc)]


def _keeps_order(old: str, new: str) -> bool:
    """Whether a widening convert from dtype `old` to dtype `new` keeps the order of values. Both must be floats."""
    return is_float(old) and is_float(new)
