"""Control flow as propagation sees it: the nodes of all regions in one list, and ties between their ends.

A carried value of a loop is one site that ties its initial value, the body's result, the body's and the
condition's argument and the loop's result: it lies the same everywhere. A result of `case` or `if` is a site
that ties the branches' results. Operands and results of a manual computation are sites with required annotations;
its body is not looked into. So loops and branches are no special case of reach or of the choice.
"""

from __future__ import annotations

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.loops import trip_count
from meshgen.sharding.rules import Linear, Rule, rule
from meshgen.sharding.rules.registry import letters
from meshgen.sharding.rules.rule import ALL_KINDS

# Sites that are no operation: they only tie values, or stand for the ends of the program.
PSEUDO_OPS = (
    "input",
    "output",
    "annotate",
    "carry",
    "branch_argument",
    "branch_result",
    "decision",
    "manual_operand",
    "manual_result",
)
UNKNOWN_TRIPS = 8.0  # a loop whose trip count cannot be read off is weighed like this many


def flatten(graph: Graph, times: float) -> list[tuple[Node, float]]:
    """Nodes in program order, each with the number of times that it runs; a region's before its op's result ties."""
    found: list[tuple[Node, float]] = []
    producers = graph.producers()
    for node in graph.nodes:
        if node.op == "while":
            found += _loop(node, times, trip_count(node, producers) or UNKNOWN_TRIPS)
        elif node.op in ("case", "if"):
            found += _branches(node, times)
        elif node.op == "manual":
            found += [(end, times) for end in _manual_ends(node)]
        else:
            found.append((node, times))
    return found


def _loop(node: Node, times: float, trips: float) -> list[tuple[Node, float]]:
    condition, body = node.regions
    carried = zip(node.operands, body.outputs, body.inputs, condition.inputs, node.results, strict=True)
    ties = [
        Node("carry", [start, end], [inner, tested, result], loc=node.loc)
        for start, end, inner, tested, result in carried
    ]
    decision = Node("decision", [condition.outputs[0]], [], loc=node.loc)
    inside = [*flatten(condition, times * trips), (decision, times * trips), *flatten(body, times * trips)]
    return [*((tie, times) for tie in ties), *inside]


def _branches(node: Node, times: float) -> list[tuple[Node, float]]:
    found = [(Node("decision", [node.operands[0]], [], loc=node.loc), times)]
    arguments = node.operands[1:]
    for number, value in enumerate(arguments):
        inner = [region.inputs[number] for region in node.regions]
        found.append((Node("branch_argument", [value], inner, loc=node.loc), times))
    for region in node.regions:
        found += flatten(region, times)
    for number, result in enumerate(node.results):
        ends = [region.outputs[number] for region in node.regions]
        found.append((Node("branch_result", ends, [result], loc=node.loc), times))
    return found


def _manual_ends(node: Node) -> list[Node]:
    """A manual computation is an end of the program for what it is given, and another for what it gives."""
    operands = zip(node.operands, node.attrs["in_shardings"], strict=True)
    results = zip(node.results, node.attrs["out_shardings"], strict=True)
    return [
        *(Node("manual_operand", [value], [], {"sharding": sharding}, node.loc) for value, sharding in operands),
        *(Node("manual_result", [], [value], {"sharding": sharding}, node.loc) for value, sharding in results),
    ]


def identity_rule(node: Node) -> Rule:
    """All dims of all operands and results are tied one to one."""
    ends: list[Value] = [*node.operands, *node.results]
    dims = " ".join(letters(ends[0].type.rank)) or "()"
    sides = [", ".join([dims] * len(side)) for side in (node.operands, node.results)]
    types = [[value.type for value in side] for side in (node.operands, node.results)]
    through = node.operands and node.results
    linear = (Linear(tuple(range(len(node.operands))), ALL_KINDS),) if through else ()
    return rule(f"{sides[0]} -> {sides[1]}", types[0], types[1], linear=linear)
