"""Hoist a collective out of a loop if it has the same result in every iteration.

before   while (...) { %g = all_gather %w  ... %g ... }      %w is defined before the loop, or carried unchanged
after    %g = all_gather %w   while (...) { ... %g ... }
"""

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
from meshgen.ops.dead_code import without_dead
from meshgen.sharding.optimizations.loops import rewrite_loops
from meshgen.sharding.optimizations.walk import merged_notes, with_graph
from meshgen.spec import Sharding

_MOVING = COMMUNICATING - AWAITED
_PURE = ELEMENTWISE | ARRANGING | MADE | LOOPS | OF_RANKS | TAKING | _MOVING


@module_pass(
    "collective-licm", "materialize", "optimize", "partition", applies="unless more expensive", requires_ops=("while",)
)
def collective_licm(module: Module, context: Compilation) -> Module:
    """Return the module with loop-invariant collectives before their loops.

    The producers of a collective's operands are hoisted with it. Loops that run at most once stay as they are.
    """
    return with_graph(module, without_dead(rewrite_loops(module.graph, _hoist_collectives)))


def _hoist_collectives(loop: Node) -> list[Node]:
    """Return the loop-invariant collectives of a loop with the producers of their operands, followed by the loop
    without them.
    """
    body = loop.regions[1]
    outer_values = _invariant_inputs(loop)
    varying = {value for value in body.values() if value not in outer_values}
    # value that is the same in every iteration -> the node of the body that computes it
    invariant: dict[Value, Node] = {}
    for node in body.nodes:
        if node.op in _PURE and not node.regions and all(v in invariant or v not in varying for v in node.operands):
            invariant |= dict.fromkeys(node.results, node)
    collectives = list(
        dict.fromkeys(node for node in invariant.values() if node.op in _MOVING)
    )  # collectives in program order
    if not collectives:
        return [loop]
    moved: list[Node] = []
    hoisted = _leading_to(collectives, invariant)
    for node in body.nodes:
        if node in hoisted:
            moved.append(_outside(node, outer_values))
            outer_values |= zip(node.results, moved[-1].results, strict=True)
    return [
        *moved,
        _with_carried_results(
            loop, collectives, {value: outer_values[value] for node in collectives for value in node.results}
        ),
    ]


def _with_carried_results(loop: Node, gone: Sequence[Node], outer_values: Mapping[Value, Value]) -> Node:
    """Return the loop without the `gone` nodes of its body. Their results become carried values that the body returns
    unchanged.
    """
    condition, body = loop.regions
    inner_values = {inner: replace(outer) for inner, outer in outer_values.items()}
    removed = set(gone)
    remaining = [rewired(node, inner_values) for node in body.nodes if node not in removed]
    outputs = [inner_values.get(value, value) for value in body.outputs]
    new_condition = Graph(
        condition.name, [*condition.inputs, *map(replace, inner_values.values())], condition.nodes, condition.outputs
    )
    new_body = Graph(body.name, [*body.inputs, *inner_values.values()], remaining, [*outputs, *inner_values.values()])
    sharding = loop.sharding
    if sharding:
        added = tuple(value.sharding or Sharding.replicated(value.type.rank) for value in outer_values.values())
        sharding = replace(sharding, operands=(*sharding.operands, *added), results=(*sharding.results, *added))
    operands, results = [*loop.operands, *outer_values.values()], [*loop.results, *map(replace, outer_values.values())]
    return replace(loop, operands=operands, results=results, regions=(new_condition, new_body), sharding=sharding)


def _invariant_inputs(loop: Node) -> dict[Value, Value]:
    """Return the loop-invariant inputs of a body, each with its value before the loop."""
    body = loop.regions[1]
    carried = zip(body.inputs, body.outputs, loop.operands, strict=True)
    return {inner: outer for inner, after, outer in carried if inner is after}


def _leading_to(nodes: Sequence[Node], invariant: Mapping[Value, Node]) -> set[Node]:
    reached, pending = set(nodes), list(nodes)
    while pending:
        for value in pending.pop().operands:
            producer = invariant.get(value)
            if producer and producer not in reached:
                reached.add(producer)
                pending.append(producer)
    return reached


def _outside(node: Node, outer_values: Mapping[Value, Value]) -> Node:
    """Return a copy of a node of the loop's body that uses the values before the loop."""
    results = [replace(value) for value in node.results]
    notes = (
        merged_notes([node], "the same in every iteration: hoisted out of the loop")
        if node.op in _MOVING
        else node.notes
    )
    return replace(node, operands=[outer_values.get(v, v) for v in node.operands], results=results, notes=notes)
