"""An all_reduce sinks below a linear operation whose result is smaller (the RFC's AllReduce Reassociate).

Works on a local program (stage partition). The op is linear in the reduced value, and its other operands are provably the same on all
devices of the groups: with different factors the sum of products is not the product with the sum.
"""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value
from meshgen.sharding.optimizations.rewrite import Walk, merged_notes, price, price_of, walk
from meshgen.sharding.optimizations.tiled import linear_operands


@module_pass("all-reduce-sink", "partition", applies="unless dearer")
def all_reduce_sink(module: Module, context: Compilation) -> Module:
    """Before: `reduce (all_reduce %x)`, `slice (all_reduce %x)`, `dot (all_reduce %x), %w`, if the result is smaller.

    After: `all_reduce (reduce %x)`, `all_reduce (slice %x)`, `all_reduce (dot %x, %w)`. The reduction has no other use.
    """
    return walk(module, context, _sink, after={"all_reduce"})


def _sink(node: Node, walk: Walk) -> Sequence[Value] | None:
    made = {v: m for v in node.operands if (m := walk.producers.get(v)) and m.op == "all_reduce"}
    if not made or node.operands[0].sharding is not None:
        return None
    for value, reduction in made.items():
        alike = [v for v, m in made.items() if m.attrs == reduction.attrs]
        for moved in ([value], alike):
            if _pays(node, [made[v] for v in moved], walk) and _may(node, moved, reduction, walk):
                return _below(node, {v: made[v] for v in moved}, walk)
    return None


def _may(node: Node, moved: Sequence[Value], reduction: Node, walk: Walk) -> bool:
    numbers = [number for number, value in enumerate(node.operands) if value in moved]
    if any(walk.uses[value] != node.operands.count(value) for value in moved):
        return False
    return linear_operands(node, numbers, reduction.attrs.kind, tuple(reduction.attrs.axes), walk)


def _pays(node: Node, reductions: Sequence[Node], walk: Walk) -> bool:
    if len(node.results) != 1:
        return False
    before = sum(price_of(reduction, walk.mesh).ring_bytes for reduction in reductions)
    result = Value(node.result.type)
    return price("all_reduce", reductions[0].attrs, result, result, walk.mesh).ring_bytes < before


def _below(node: Node, moved: dict[Value, Node], walk: Walk) -> Sequence[Value]:
    reductions = list(moved.values())
    operands = [moved[v].operands[0] if v in moved else v for v in node.operands]
    computed = walk.emit(node.op, operands, node.attrs, node.result, None, loc=node.loc, notes=node.notes)
    first, notes = reductions[0], merged_notes(reductions, f"moved below {node.op}, whose result is smaller")
    return [walk.emit("all_reduce", [computed], first.attrs, node.result, None, loc=first.loc, notes=notes)]
