"""What a loop adds up is reduced once behind the loop instead of in every trip.

Works on a local program (stage partition). The carried value becomes each device's own sum, from a neutral element on; what it
started with is added behind the loop. Sums of floats are added in another order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from meshgen.ir.evaluate.common import neutral
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.loops import trip_count
from meshgen.ir.regions import used_values
from meshgen.sharding.optimizations.rewrite import about, meaning, merged_why, without_dead

_KINDS = {"add": "sum", "subtract": "sum", "maximum": "max", "minimum": "min", "multiply": "product", "and": "and", "or": "or", "xor": "xor"}  # fmt: skip


@about("while")
def hoist_sums(module: Module) -> Module:
    """Before: `%r = while (%s = %z) { %a = all_reduce %x   %t = add %s, %a }`.

    After: `%p = while (%s = 0) { %t = add %s, %x }   %r = add %z, (all_reduce %p)`; max, min, products and bits alike. The
    sum so far is used for nothing else in the loop. Not out of loops that run once at most.
    """
    return replace(module, graph=without_dead(_hoisted(module.graph, {})))


@dataclass(frozen=True)
class _Sum:
    """A carried value: the ops that add to it, and the reductions of what is added, all of one kind over the same axes."""

    number: int
    adds: tuple[Node, ...]
    reductions: tuple[Node, ...]


def _hoisted(graph: Graph, around: Mapping[Value, Node]) -> Graph:
    nodes: list[Node] = []
    known = {**around, **graph.producers()}
    for node in graph.nodes:
        if node.regions and node.op in ("while", "case", "if"):
            node = replace(node, regions=tuple(_hoisted(region, known) for region in node.regions))
        sums = _sums(node) if node.op == "while" and trip_count(node, known) not in (0, 1) else []
        nodes += _written(node, sums) if sums else [node]
    return Graph(graph.name, graph.inputs, nodes, graph.outputs)


def _sums(loop: Node) -> list[_Sum]:
    condition, body = loop.regions
    uses = Counter([*used_values(body), *used_values(condition)])
    made = body.producers()
    found = [_sum(number, body, uses, made) for number in range(len(body.inputs)) if not uses[condition.inputs[number]]]
    return [each for each in found if each]


def _sum(number: int, body: Graph, uses: Mapping[Value, int], made: Mapping[Value, Node]) -> _Sum | None:
    """From what is carried on back to what was carried in: each step adds a reduction."""
    start, value = body.inputs[number], body.outputs[number]
    adds: list[Node] = []
    reductions: list[Node] = []
    while value is not start:
        node = made.get(value)
        if node is None or node.op not in _KINDS or uses[value] != 1 or value.sharding is not None:
            return None
        terms = [(v, m) for v in node.operands if (m := made.get(v)) and m.op == "all_reduce" and uses[v] == 1]
        terms = [pair for pair in terms if node.op != "subtract" or pair[0] is node.operands[1]]
        if not terms:
            return None
        term, reduction = terms[0]
        value = node.operands[1 - node.operands.index(term)]
        adds.append(node)
        reductions.append(reduction)
    return _Sum(number, tuple(adds), tuple(reductions)) if adds and _is_one(start, adds, reductions, uses) else None


def _is_one(start: Value, adds: Sequence[Node], reductions: Sequence[Node], uses: Mapping[Value, int]) -> bool:
    """Whether all that is added is reduced alike, as it is added, and nothing else sees the sum so far."""
    kind = reductions[0].attrs["kind"]
    is_alike = all(meaning(each.attrs) == meaning(reductions[0].attrs) for each in reductions)
    is_truth = start.type.dtype == "i1" and kind in ("sum", "product")  # wraps: adding is no sum
    return uses[start] == 1 and is_alike and not is_truth and all(_KINDS[node.op] == kind for node in adds)


def _written(loop: Node, sums: Sequence[_Sum]) -> list[Node]:
    """The loop over each device's own sums, between their neutral start and the reductions."""
    condition, body = loop.regions
    put = {reduction.result: reduction.operands[0] for each in sums for reduction in each.reductions}
    nodes = [replace(n, operands=[put.get(v, v) for v in n.operands]) if _has(n, put) else n for n in body.nodes]
    operands, results = list(loop.operands), list(loop.results)
    before: list[Node] = []
    behind: list[Node] = []
    for each in sums:
        attrs, number = each.reductions[0].attrs, each.number
        start, end = operands[number], results[number]
        zero = np.broadcast_to(neutral(attrs["kind"], start.type.dtype), start.type.sizes)
        before.append(Node("constant", [], [Value(start.type, loc=loop.loc)], {"value": zero}, loop.loc))
        operands[number] = before[-1].result
        results[number] = Value(end.type, end.name and f"{end.name}_own", None, end.loc)
        why = merged_why(each.reductions, "what a loop adds up is reduced once behind it")
        loc = each.reductions[0].loc
        behind.append(Node("all_reduce", [results[number]], [Value(end.type, loc=loc)], meaning(attrs) | why, loc))
        op = "add" if each.adds[0].op == "subtract" else each.adds[0].op
        behind.append(Node(op, [start, behind[-1].result], [end], dict(each.adds[0].attrs), each.adds[0].loc))
    graph = Graph(body.name, body.inputs, nodes, body.outputs)
    return [*before, replace(loop, operands=operands, results=results, regions=(condition, graph)), *behind]


def _has(node: Node, put: Mapping[Value, Value]) -> bool:
    return any(value in put for value in node.operands)
