"""Sink an all_reduce below a linear op whose result is smaller (the RFC's AllReduce Reassociate).

    before   %1 = all_reduce %x   %2 = dot %1, %w
    after    %1 = dot %x, %w      %2 = all_reduce %1

Works on a local program (stage partition). The op must be linear in the reduced value, and its other operands must be
provably equal on all devices of the groups: with different factors, the sum of the products is not the product with the
sum.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value
from meshgen.sharding.optimizations.loops_on_tiles import linear_operands
from meshgen.sharding.optimizations.walk import Walk, merged_notes, price, price_of, walk


@module_pass("all-reduce-sink", "partition", applies="unless more expensive")
def all_reduce_sink(module: Module, context: Compilation) -> Module:
    """Return the module with reductions below reductions of dims, slices and dots that have smaller results.

    A reduction sinks only if it has no other use.
    """
    return walk(module, context, _sink, after={"all_reduce"})


def _sink(node: Node, walk: Walk) -> Sequence[Value] | None:
    reductions = {v: m for v in node.operands if (m := walk.producers.get(v)) and m.op == "all_reduce"}
    if not reductions or node.operands[0].sharding is not None:
        return None
    for value, reduction in reductions.items():
        equal_reductions = [v for v, m in reductions.items() if m.attrs == reduction.attrs]
        for moved in ([value], equal_reductions):
            if _is_profitable(node, [reductions[v] for v in moved], walk) and _can_sink(node, moved, reduction, walk):
                return _emit_below(node, {v: reductions[v] for v in moved}, walk)
    return None


def _can_sink(node: Node, moved: Sequence[Value], reduction: Node, walk: Walk) -> bool:
    numbers = [index for index, value in enumerate(node.operands) if value in moved]
    if any(walk.uses[value] != node.operands.count(value) for value in moved):
        return False
    return linear_operands(node, numbers, reduction.attrs.kind, tuple(reduction.attrs.axes), walk)


def _is_profitable(node: Node, reductions: Sequence[Node], walk: Walk) -> bool:
    if len(node.results) != 1:
        return False
    before = sum(price_of(reduction, walk.mesh).ring_bytes for reduction in reductions)
    result = Value(node.result.type)
    return price("all_reduce", reductions[0].attrs, result, result, walk.mesh).ring_bytes < before


def _emit_below(node: Node, moved: dict[Value, Node], walk: Walk) -> Sequence[Value]:
    reductions = list(moved.values())
    operands = [moved[v].operands[0] if v in moved else v for v in node.operands]
    computed = walk.emit(node.op, operands, node.attrs, node.result, None, loc=node.loc, notes=node.notes)
    first, notes = reductions[0], merged_notes(reductions, f"moved below {node.op}, whose result is smaller")
    return [walk.emit("all_reduce", [computed], first.attrs, node.result, None, loc=first.loc, notes=notes)]
