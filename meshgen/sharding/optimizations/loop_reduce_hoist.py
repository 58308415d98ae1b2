"""A sum over the trips of a loop is reduced once after the loop instead of in every trip.

Works on a local program (stage partition). The carried value becomes each device's own sum, from a neutral element on; its initial value
is added after the loop. Sums of floats are added in another order. A device's own sum before a
reduce_scatter is as large as the whole: these stay in the loop if that needs much more memory.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ir.regions import used_values
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.live import without_dead
from meshgen.ops.rules.rule import COMBINED_KINDS
from meshgen.sharding.live import peak_of
from meshgen.sharding.optimizations.loops import with_loops_changed
from meshgen.sharding.optimizations.rewrite import merged_notes, with_graph

# Peak memory, as a ratio, that a sum may take when it is reduced behind a loop instead of in it.
_MEMORY = 1.25


@module_pass("loop-reduce-hoist", "partition", applies="unless dearer", requires_ops=("while",))
def loop_reduce_hoist(module: Module, context: Compilation) -> Module:
    """Before: `%r = while (%s = %z) { %a = all_reduce %x   %t = add %s, %a }`.

    After: `%p = while (%s = 0) { %t = add %s, %x }   %r = add %z, (all_reduce %p)`; reduce_scatter alike, and max, min, products
    and bits. The sum so far has no other use in the loop. Not out of loops that run at most once.
    """
    found = _hoisted(module.graph, ("all_reduce", "reduce_scatter"))
    if "reduce_scatter" in module.graph.index.ops:
        before, after = (peak_of(graph, module.mesh).bytes for graph in (module.graph, found))
        if after > _MEMORY * before:
            found = _hoisted(module.graph, ("all_reduce",))
    return with_graph(module, found)


class _Sum(NamedTuple):
    """A carried value: the ops that add to it, and the reductions of the terms, all of one kind over the same axes."""

    number: int
    adds: tuple[Node, ...]
    reductions: tuple[Node, ...]


def _hoisted(graph: Graph, ops: Sequence[str]) -> Graph:
    """The graph with reductions of `ops` after loops instead of in them."""

    def change(loop: Node) -> list[Node]:
        turned = _transposed_first(loop, ops)
        sums = _sums(turned, ops)
        return _hoisted_loop(turned, sums) if sums else [loop]

    return without_dead(with_loops_changed(graph, change))


def _transposed_first(loop: Node, ops: Sequence[str]) -> Node:
    """The loop with transposes before a reduction instead of after it."""
    body = loop.regions[1]
    uses, made = body.index.use_counts, dict(body.index.producers)
    nodes: list[Node] = []
    for node in body.nodes:
        reduction = made.get(node.operands[0]) if node.op == "transpose" else None
        if reduction and reduction.op in ops and uses[reduction.result] == 1:
            given, order = reduction.operands[0], node.attrs.perm
            turned = Value(given.type.with_shape(given.type.sizes[d] for d in order), given.name, None, given.loc)
            nodes.append(replace(node, operands=[given], results=[turned]))
            dim = {"dim": order.index(reduction.attrs.dim)} if "dim" in reduction.attrs.given else {}
            node = replace(reduction, operands=[turned], results=node.results, attrs=reduction.attrs | dim)
            made[node.result] = node
        nodes.append(node)
    return replace(loop, regions=(loop.regions[0], Graph(body.name, body.inputs, nodes, body.outputs)))


def _sums(loop: Node, ops: Sequence[str]) -> list[_Sum]:
    condition, body = loop.regions
    uses = Counter([*used_values(body), *used_values(condition)])
    made = body.index.producers
    found = [
        _carried_sum(number, body, uses, made, ops)
        for number in range(len(body.inputs))
        if not uses[condition.inputs[number]]
    ]
    return [each for each in found if each]


def _carried_sum(
    number: int, body: Graph, uses: Mapping[Value, int], made: Mapping[Value, Node], ops: Sequence[str]
) -> _Sum | None:
    """The additions from the body's result back to the carried value; each adds a reduction."""
    start, value = body.inputs[number], body.outputs[number]
    adds: list[Node] = []
    reductions: list[Node] = []
    while value is not start:
        node = made.get(value)
        if node is None or node.op not in COMBINED_KINDS or uses[value] != 1 or value.sharding is not None:
            return None
        terms = [(v, m) for v in node.operands if (m := made.get(v)) and m.op in ops and uses[v] == 1]
        terms = [pair for pair in terms if node.op != "subtract" or pair[0] is node.operands[1]]
        if not terms:
            return None
        term, reduction = terms[0]
        value = node.operands[1 - node.operands.index(term)]
        adds.append(node)
        reductions.append(reduction)
    return _Sum(number, tuple(adds), tuple(reductions)) if adds and _is_one(start, adds, reductions, uses) else None


def _is_one(start: Value, adds: Sequence[Node], reductions: Sequence[Node], uses: Mapping[Value, int]) -> bool:
    """Whether all terms are reduced alike, by the kind of the addition, and the sum so far has no other use."""
    kind = reductions[0].attrs.kind
    is_alike = all(_likeness(each) == _likeness(reductions[0]) for each in reductions)
    is_alike = is_alike and reductions[0].operands[0].type.dtype == start.type.dtype  # not summed in a wider type
    is_truth = start.type.dtype == "i1" and kind in ("sum", "product")  # booleans: adding wraps, so it is not a sum
    return uses[start] == 1 and is_alike and not is_truth and all(COMBINED_KINDS[node.op] == kind for node in adds)


def _likeness(reduction: Node) -> tuple[str, dict[str, Any], TensorType]:
    return reduction.op, reduction.attrs, reduction.operands[0].type


def _hoisted_loop(loop: Node, sums: Sequence[_Sum]) -> list[Node]:
    """The loop over each device's own sums, between their neutral start and the reductions."""
    condition, body = loop.regions
    put = {reduction.result: reduction.operands[0] for each in sums for reduction in each.reductions}
    own = {each.number: each.reductions[0].operands[0].type for each in sums}
    for each in sums:
        chain = [body.inputs[each.number], *(add.result for add in each.adds)]
        put |= {value: Value(own[each.number], value.name, None, value.loc) for value in chain}
    inside = Graph(body.name, _put(body.inputs, put), [_with(n, put) for n in body.nodes], _put(body.outputs, put))
    unread = {condition.inputs[number]: replace(condition.inputs[number], type=kind) for number, kind in own.items()}
    tested = Graph(condition.name, _put(condition.inputs, unread), condition.nodes, condition.outputs)
    operands, results = list(loop.operands), list(loop.results)
    before: list[Node] = []
    after_loop: list[Node] = []
    for each in sums:
        reduction, number, kind = each.reductions[0], each.number, own[each.number]
        start, end = operands[number], results[number]
        zero = np.broadcast_to(neutral(reduction.attrs.kind, kind.dtype), kind.sizes)
        before.append(Node("constant", [], [Value(kind, loc=loop.loc)], {"value": zero}, loop.loc))
        operands[number] = before[-1].result
        results[number] = Value(kind, end.name and f"{end.name}_own", None, end.loc)
        notes = merged_notes(each.reductions, "a sum over the trips of a loop is reduced once after it")
        made = Value(end.type, loc=reduction.loc)
        attrs = dict(reduction.attrs)
        after_loop.append(Node(reduction.op, [results[number]], [made], attrs, reduction.loc, notes=notes))
        op = "add" if each.adds[0].op == "subtract" else each.adds[0].op
        after_loop.append(Node(op, [start, made], [end], dict(each.adds[0].attrs), each.adds[0].loc))
    return [*before, replace(loop, operands=operands, results=results, regions=(tested, inside)), *after_loop]


def _put(values: Sequence[Value], put: Mapping[Value, Value]) -> list[Value]:
    return [put.get(value, value) for value in values]


def _with(node: Node, put: Mapping[Value, Value]) -> Node:
    """The node with other operands and results."""
    if not any(value in put for value in node.operands):
        return node
    return replace(node, operands=_put(node.operands, put), results=_put(node.results, put))
