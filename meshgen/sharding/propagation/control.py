"""Flatten control flow for propagation: one list of the nodes of all regions, with sites that tie regions to their op.

Example: `%r = while (%s = %z : f32[64,32]) { %t = add %s, %x }` becomes

    add     %t = add %s, %x, weighted by the loop's trip count
    carry   ties %z, %s (of condition and body), %t and %r: dims 0 and 1 of all are tied, so all have one sharding

Each result of `case` or `if` is a site that ties the results of the branches. Each (operand, result) pair of an
optimization barrier is a site. Operands and results of a manual computation are sites with required annotations.
Its body is part of the program along axes that are not manual, if these may split it; otherwise the computation is
opaque. So reachable states and choices need no special case for loops and branches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.canonical import canonical_order
from meshgen.ir.flatten_manual import is_open
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.loops import trip_count
from meshgen.ir.predicates import is_branching, is_loop, is_manual, is_optimization_barrier, is_propagation_barrier
from meshgen.ops.rules.rule import ALL_KINDS, Linear, Rule, letters, rule
from meshgen.sharding.propagation.manual_bodies import joined


class Flat(NamedTuple):
    """A node, its number of executions per step, and the mesh axes that are manual around it."""

    node: Node
    times: float
    manual: tuple[str, ...] = ()


def flatten(graph: Graph, times: float, manual: tuple[str, ...] = ()) -> list[Flat]:
    """Return all nodes in canonical order, with control flow replaced by the nodes of its regions.

    The nodes of a region precede the sites that tie the results of the op.
    """
    flat_nodes: list[Flat] = []
    producers = graph.index.producers
    for node in canonical_order(graph):
        if is_loop(node):
            flat_nodes += _flattened_loop(
                node, times, trip_count(node, producers) or DEFAULT.propagation.unknown_trips, manual
            )
        elif is_branching(node):
            flat_nodes += _branches(node, times, manual)
        elif is_manual(node):
            flat_nodes += _manual(node, times, manual)
        elif is_optimization_barrier(node):
            pairs = zip(node.operands, node.results, strict=True)
            flat_nodes += [
                Flat(Node("barrier_value", [v], [result], loc=node.loc), times, manual) for v, result in pairs
            ]
        else:
            flat_nodes.append(Flat(node, times, manual))
    return flat_nodes


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
    flat_nodes = [Flat(Node("decision", [node.operands[0]], [], loc=node.loc), times, manual)]
    arguments = node.operands[1:]
    for index, value in enumerate(arguments):
        inner = [region.inputs[index] for region in node.regions]
        flat_nodes.append(Flat(Node("branch_argument", [value], inner, loc=node.loc), times, manual))
    for region in node.regions:
        flat_nodes += flatten(region, times, manual)
    for index, result in enumerate(node.results):
        ends = [region.outputs[index] for region in node.regions]
        flat_nodes.append(Flat(Node("branch_result", ends, [result], loc=node.loc), times, manual))
    return flat_nodes


def _manual(node: Node, times: float, manual: tuple[str, ...]) -> list[Flat]:
    """Return the sites of a manual computation: its operands, then its body if free axes may split it, then its
    results.

    Without the body, the operands count as outputs of the program, and the results as inputs.
    """
    axes, body = (*manual, *node.attrs.axes), node.regions[0]
    inputs, outputs = ([[v] if is_open(node) else [] for v in side] for side in (body.inputs, body.outputs))
    operand_ends = zip(node.operands, inputs, _end_attributes(node, "in"), strict=True)
    result_ends = zip(node.results, outputs, _end_attributes(node, "out"), strict=True)
    return [
        *(Flat(Node("manual_operand", [v], inner, attrs, node.loc), times, axes) for v, inner, attrs in operand_ends),
        *(flatten(body, times, axes) if is_open(node) else ()),
        *(Flat(Node("manual_result", inner, [v], attrs, node.loc), times, axes) for v, inner, attrs in result_ends),
    ]


def _end_attributes(node: Node, side: str) -> list[dict[str, Any]]:
    """Return the attributes of the site of each operand or result: its annotation, and the annotation's manual part."""
    return [
        {"sharding": joined(s, f), "open_dims": open_dims, "manual": s} for s, f, open_dims in node.attrs.ends(side)
    ]


def identity_rule(node: Node) -> Rule:
    """Return the rule that ties all dims of all operands and results one to one."""
    ends: list[Value] = [*node.operands, *node.results]
    dims = " ".join(letters(ends[0].type.rank)) or "()"
    sides = [", ".join([dims] * len(side)) for side in (node.operands, node.results)]
    types = [[value.type for value in side] for side in (node.operands, node.results)]
    is_passed = node.operands and node.results and not is_propagation_barrier(node)
    linear = (Linear(tuple(range(len(node.operands))), ALL_KINDS),) if is_passed else ()
    return rule(f"{sides[0]} -> {sides[1]}", types[0], types[1], linear=linear)
