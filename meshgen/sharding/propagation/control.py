"""Flatten control flow for propagation: the nodes of all regions in one list, and sites that tie region ends to the op.

Example: `%r = while (%s = %z : f32[64,32]) { %t = add %s, %x }` becomes

    add     %t = add %s, %x, with the loop's number of trips as its weight
    carry   ties %z, %s (of condition and body), %t and %r: dims 0 and 1 of all are tied, so all have one sharding

A result of `case` or `if` is a site that ties the branches' results, and each pair of an operand and a result of an optimization
barrier is one. Operands and results of a manual computation are sites
with required annotations; its body is part of the program along axes that are not manual, if these may split it, else it is opaque.
So reachable states and choices need no special case for loops and branches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.canonical import canonical_order
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.loops import trip_count
from meshgen.ir.manual import is_open
from meshgen.ir.predicates import is_branching, is_loop, is_manual, is_optimization_barrier, is_propagation_barrier
from meshgen.ops.rules.rule import ALL_KINDS, Linear, Rule, letters, rule
from meshgen.sharding.propagation.tiles import joined


class Flat(NamedTuple):
    """A node, how often it runs, and the axes that are manual around it."""

    node: Node
    times: float
    manual: tuple[str, ...] = ()


def flatten(graph: Graph, times: float, manual: tuple[str, ...] = ()) -> list[Flat]:
    """Nodes in canonical order; a region's before its op's result ties."""
    found: list[Flat] = []
    producers = graph.index.producers
    for node in canonical_order(graph):
        if is_loop(node):
            found += _flattened_loop(
                node, times, trip_count(node, producers) or DEFAULT.propagation.unknown_trips, manual
            )
        elif is_branching(node):
            found += _branches(node, times, manual)
        elif is_manual(node):
            found += _manual(node, times, manual)
        elif is_optimization_barrier(node):
            pairs = zip(node.operands, node.results, strict=True)
            found += [Flat(Node("barrier_value", [v], [result], loc=node.loc), times, manual) for v, result in pairs]
        else:
            found.append(Flat(node, times, manual))
    return found


def _flattened_loop(node: Node, times: float, trips: float, manual: tuple[str, ...]) -> list[Flat]:
    condition, body = node.regions
    carried = zip(node.operands, body.outputs, body.inputs, condition.inputs, node.results, strict=True)
    ties = [
        Node("carry", [start, end], [inner, tested, result], {"is_changed": end is not inner}, node.loc)
        for start, end, inner, tested, result in carried
    ]
    decision = Flat(Node("decision", [condition.outputs[0]], [], loc=node.loc), times * trips, manual)
    inside = [*flatten(condition, times * trips, manual), decision, *flatten(body, times * trips, manual)]
    return [*(Flat(tie, times, manual) for tie in ties), *inside]


def _branches(node: Node, times: float, manual: tuple[str, ...]) -> list[Flat]:
    found = [Flat(Node("decision", [node.operands[0]], [], loc=node.loc), times, manual)]
    arguments = node.operands[1:]
    for number, value in enumerate(arguments):
        inner = [region.inputs[number] for region in node.regions]
        found.append(Flat(Node("branch_argument", [value], inner, loc=node.loc), times, manual))
    for region in node.regions:
        found += flatten(region, times, manual)
    for number, result in enumerate(node.results):
        ends = [region.outputs[number] for region in node.regions]
        found.append(Flat(Node("branch_result", ends, [result], loc=node.loc), times, manual))
    return found


def _manual(node: Node, times: float, manual: tuple[str, ...]) -> list[Flat]:
    """The ends of a manual computation, and between them its body if free axes may split it.

    If not, its operands are outputs of the program, and its results inputs.
    """
    axes, body = (*manual, *node.attrs.axes), node.regions[0]
    inputs, outputs = ([[v] if is_open(node) else [] for v in side] for side in (body.inputs, body.outputs))
    takes = zip(node.operands, inputs, _said(node, "in"), strict=True)
    gives = zip(node.results, outputs, _said(node, "out"), strict=True)
    return [
        *(Flat(Node("manual_operand", [v], inner, said, node.loc), times, axes) for v, inner, said in takes),
        *(flatten(body, times, axes) if is_open(node) else ()),
        *(Flat(Node("manual_result", inner, [v], said, node.loc), times, axes) for v, inner, said in gives),
    ]


def _said(node: Node, side: str) -> list[dict[str, Any]]:
    """The annotation of each operand or result, and its part over the manual axes."""
    return [{"sharding": joined(s, f), "open_dims": opened, "manual": s} for s, f, opened in node.attrs.ends(side)]


def identity_rule(node: Node) -> Rule:
    """All dims of all operands and results are tied one to one."""
    ends: list[Value] = [*node.operands, *node.results]
    dims = " ".join(letters(ends[0].type.rank)) or "()"
    sides = [", ".join([dims] * len(side)) for side in (node.operands, node.results)]
    types = [[value.type for value in side] for side in (node.operands, node.results)]
    through = node.operands and node.results and not is_propagation_barrier(node)
    linear = (Linear(tuple(range(len(node.operands))), ALL_KINDS),) if through else ()
    return rule(f"{sides[0]} -> {sides[1]}", types[0], types[1], linear=linear)
