"""A collective with the same result in every trip of a loop is hoisted out of the loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import rewired
from meshgen.ops.classes import (
    ARRANGING,
    AWAITED,
    COMMUNICATING,
    ELEMENTWISE,
    LOOPS,
    MADE,
    OF_RANKS,
    TAKING,
)
from meshgen.ops.live import without_dead
from meshgen.sharding.optimizations.loops import with_loops_changed
from meshgen.sharding.optimizations.rewrite import merged_notes, with_graph
from meshgen.spec import Sharding

_MOVING = COMMUNICATING - AWAITED
_PURE = ELEMENTWISE | ARRANGING | MADE | LOOPS | OF_RANKS | TAKING | _MOVING


@module_pass(
    "collective-licm", "materialize", "optimize", "partition", applies="unless dearer", requires_ops=("while",)
)
def collective_licm(module: Module, context: Compilation) -> Module:
    """Before: `while (...) { ... all_gather %w ... }`, `%w` from around the loop or carried unchanged.

    After: `%g = all_gather %w   while (...) { ... %g ... }`. Its operands' producers are hoisted with it. Not out of loops that run at most once.
    """
    return with_graph(module, without_dead(with_loops_changed(module.graph, _out_of)))


def _out_of(loop: Node) -> list[Node]:
    """The loop-invariant collectives of a loop's body with the producers of their operands, then the loop without them."""
    body = loop.regions[1]
    same = _unchanged(loop)
    own = {value for value in body.values() if value not in same}
    fixed: dict[Value, Node] = {}  # made in the body, the same in every trip
    for node in body.nodes:
        if node.op in _PURE and not node.regions and all(v in fixed or v not in own for v in node.operands):
            fixed |= dict.fromkeys(node.results, node)
    wanted = list(dict.fromkeys(node for node in fixed.values() if node.op in _MOVING))  # in program order
    if not wanted:
        return [loop]
    moved: list[Node] = []
    leading = _leading_to(wanted, fixed)
    for node in body.nodes:
        if node in leading:
            moved.append(_outside(node, same))
            same |= zip(node.results, moved[-1].results, strict=True)
    return [*moved, _handed(loop, wanted, {value: same[value] for node in wanted for value in node.results})]


def _handed(loop: Node, gone: Sequence[Node], given: Mapping[Value, Value]) -> Node:
    """The loop without some nodes of its body: their results become carried values that the body returns unchanged."""
    condition, body = loop.regions
    put = {inner: replace(outer) for inner, outer in given.items()}
    without = set(gone)
    left = [rewired(node, put) for node in body.nodes if node not in without]
    ends = [put.get(value, value) for value in body.outputs]
    tested = Graph(condition.name, [*condition.inputs, *map(replace, put.values())], condition.nodes, condition.outputs)
    inside = Graph(body.name, [*body.inputs, *put.values()], left, [*ends, *put.values()])
    sharding = loop.sharding
    if sharding:
        more = tuple(value.sharding or Sharding.replicated(value.type.rank) for value in given.values())
        sharding = replace(sharding, operands=(*sharding.operands, *more), results=(*sharding.results, *more))
    operands, results = [*loop.operands, *given.values()], [*loop.results, *map(replace, given.values())]
    return replace(loop, operands=operands, results=results, regions=(tested, inside), sharding=sharding)


def _unchanged(loop: Node) -> dict[Value, Value]:
    """Inputs of a body that are loop-invariant, each with its value before the loop."""
    body = loop.regions[1]
    carried = zip(body.inputs, body.outputs, loop.operands, strict=True)
    return {inner: outer for inner, after, outer in carried if inner is after}


def _leading_to(wanted: Sequence[Node], fixed: Mapping[Value, Node]) -> set[Node]:
    found, left = set(wanted), list(wanted)
    while left:
        for value in left.pop().operands:
            made = fixed.get(value)
            if made and made not in found:
                found.add(made)
                left.append(made)
    return found


def _outside(node: Node, same: Mapping[Value, Value]) -> Node:
    """A copy of a node over the values around the loop."""
    results = [replace(value) for value in node.results]
    notes = merged_notes([node], "the same in every trip: before the loop") if node.op in _MOVING else node.notes
    return replace(node, operands=[same.get(v, v) for v in node.operands], results=results, notes=notes)
