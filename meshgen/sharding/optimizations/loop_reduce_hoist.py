"""Reduce a sum over loop iterations once after the loop, instead of reducing one term in every iteration.

    before   %r = while (%s = %z) { %a = all_reduce %x   %t = add %s, %a }
    after    %p = while (%s = 0) { %t = add %s, %x }   %q = all_reduce %p   %r = add %z, %q

Works on a local program (stage partition). The carried value becomes each device's partial sum, starting from a neutral
element; its initial value is added after the loop. Sums of floats are added in another order. The partial sum before a
reduce_scatter is larger than the result, so the reduce_scatter stays in the loop if hoisting it needs much more memory.
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
from meshgen.ops.dead_code import without_dead
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.rules.rule import COMBINED_KINDS
from meshgen.sharding.live import peak_of
from meshgen.sharding.optimizations.loops import rewrite_loops
from meshgen.sharding.optimizations.walk import merged_notes, with_graph

# chosen: hoisting reduce_scatters may multiply peak memory by at most this factor
_MEMORY = 1.25


@module_pass("loop-reduce-hoist", "partition", applies="unless more expensive", requires_ops=("while",))
def loop_reduce_hoist(module: Module, context: Compilation) -> Module:
    """Return the module with reductions after loops.

    Hoists all_reduce and reduce_scatter of sums, max, min, products and bitwise ops. The running sum must have no other
    use in the loop. Loops that run at most once stay as they are.
    """
    hoisted = _hoisted(module.graph, ("all_reduce", "reduce_scatter"))
    if "reduce_scatter" in module.graph.index.ops:
        before, after = (peak_of(graph, module.mesh).bytes for graph in (module.graph, hoisted))
        if after > _MEMORY * before:
            hoisted = _hoisted(module.graph, ("all_reduce",))
    return with_graph(module, hoisted)


class _Sum(NamedTuple):
    """A loop-carried sum: its index among the carried values, the ops that add to it, and the reductions of the added
    terms.

    All reductions have equal kind and axes.
    """

    number: int
    adds: tuple[Node, ...]
    reductions: tuple[Node, ...]


def _hoisted(graph: Graph, ops: Sequence[str]) -> Graph:
    """Return the graph with reductions of `ops` after loops instead of inside them."""

    def change(loop: Node) -> list[Node]:
        transposed = _transposed_first(loop, ops)
        sums = _sums(transposed, ops)
        return _hoisted_loop(transposed, sums) if sums else [loop]

    return without_dead(rewrite_loops(graph, change))


def _transposed_first(loop: Node, ops: Sequence[str]) -> Node:
    """Return the loop with transposes before reductions instead of after them."""
    body = loop.regions[1]
    uses, producers = body.index.use_counts, dict(body.index.producers)
    nodes: list[Node] = []
    for node in body.nodes:
        reduction = producers.get(node.operands[0]) if node.op == "transpose" else None
        if reduction and reduction.op in ops and uses[reduction.result] == 1:
            operand, order = reduction.operands[0], node.attrs.perm
            transposed = Value(
                operand.type.with_shape(operand.type.sizes[d] for d in order), operand.name, None, operand.loc
            )
            nodes.append(replace(node, operands=[operand], results=[transposed]))
            dim = {"dim": order.index(reduction.attrs.dim)} if "dim" in reduction.attrs.given else {}
            node = replace(reduction, operands=[transposed], results=node.results, attrs=reduction.attrs | dim)
            producers[node.result] = node
        nodes.append(node)
    return replace(loop, regions=(loop.regions[0], Graph(body.name, body.inputs, nodes, body.outputs)))


def _sums(loop: Node, ops: Sequence[str]) -> list[_Sum]:
    condition, body = loop.regions
    uses = Counter([*used_values(body), *used_values(condition)])
    producers = body.index.producers
    candidates = [
        _carried_sum(number, body, uses, producers, ops)
        for number in range(len(body.inputs))
        if not uses[condition.inputs[number]]
    ]
    return [candidate for candidate in candidates if candidate]


def _carried_sum(
    number: int, body: Graph, uses: Mapping[Value, int], producers: Mapping[Value, Node], ops: Sequence[str]
) -> _Sum | None:
    """Return the sum in carried value `number`: the additions from the carried input to the body's output, and their
    terms.

    Returns None if an addition on this path adds no reduction.
    """
    start, value = body.inputs[number], body.outputs[number]
    adds: list[Node] = []
    reductions: list[Node] = []
    while value is not start:
        node = producers.get(value)
        if node is None or node.op not in COMBINED_KINDS or uses[value] != 1 or value.sharding is not None:
            return None
        terms = [
            (v, producer)
            for v in node.operands
            if (producer := producers.get(v)) and producer.op in ops and uses[v] == 1
        ]
        terms = [pair for pair in terms if node.op != "subtract" or pair[0] is node.operands[1]]
        if not terms:
            return None
        term, reduction = terms[0]
        value = node.operands[1 - node.operands.index(term)]
        adds.append(node)
        reductions.append(reduction)
    return (
        _Sum(number, tuple(adds), tuple(reductions)) if adds and _is_hoistable(start, adds, reductions, uses) else None
    )


def _is_hoistable(start: Value, adds: Sequence[Node], reductions: Sequence[Node], uses: Mapping[Value, int]) -> bool:
    """Whether all terms are reduced in the same way, matching the additions, and the running sum has no other use."""
    kind = reductions[0].attrs.kind
    is_equal = all(_reduction_key(reduction) == _reduction_key(reductions[0]) for reduction in reductions)
    # otherwise the loop accumulates in a wider type than the reduction
    is_equal = is_equal and reductions[0].operands[0].type.dtype == start.type.dtype
    is_truth = start.type.dtype == "i1" and kind in ("sum", "product")  # adding booleans wraps, so it is not a sum
    return uses[start] == 1 and is_equal and not is_truth and all(COMBINED_KINDS[node.op] == kind for node in adds)


def _reduction_key(reduction: Node) -> tuple[str, dict[str, Any], TensorType]:
    return reduction.op, reduction.attrs, reduction.operands[0].type


def _hoisted_loop(loop: Node, sums: Sequence[_Sum]) -> list[Node]:
    """Return the neutral initial values, the loop over each device's partial sums, and the reductions after it."""
    condition, body = loop.regions
    replacements = {
        reduction.result: reduction.operands[0] for carried_sum in sums for reduction in carried_sum.reductions
    }
    partial_types = {carried_sum.number: carried_sum.reductions[0].operands[0].type for carried_sum in sums}
    for carried_sum in sums:
        chain = [body.inputs[carried_sum.number], *(add.result for add in carried_sum.adds)]
        replacements |= {
            value: Value(partial_types[carried_sum.number], value.name, None, value.loc) for value in chain
        }
    new_body = Graph(
        body.name,
        _replaced(body.inputs, replacements),
        [_with(n, replacements) for n in body.nodes],
        _replaced(body.outputs, replacements),
    )
    unread = {
        condition.inputs[number]: replace(condition.inputs[number], type=kind) for number, kind in partial_types.items()
    }
    new_condition = Graph(condition.name, _replaced(condition.inputs, unread), condition.nodes, condition.outputs)
    operands, results = list(loop.operands), list(loop.results)
    before_loop: list[Node] = []
    after_loop: list[Node] = []
    for carried_sum in sums:
        reduction, number, kind = carried_sum.reductions[0], carried_sum.number, partial_types[carried_sum.number]
        start, end = operands[number], results[number]
        zero = np.broadcast_to(neutral(reduction.attrs.kind, kind.dtype), kind.sizes)
        before_loop.append(Node("constant", [], [Value(kind, loc=loop.loc)], {"value": zero}, loop.loc))
        operands[number] = before_loop[-1].result
        results[number] = Value(kind, end.name and f"{end.name}_own", None, end.loc)
        notes = merged_notes(carried_sum.reductions, "a sum over loop iterations is reduced once after the loop")
        reduced = Value(end.type, loc=reduction.loc)
        attrs = dict(reduction.attrs)
        after_loop.append(Node(reduction.op, [results[number]], [reduced], attrs, reduction.loc, notes=notes))
        op = "add" if carried_sum.adds[0].op == "subtract" else carried_sum.adds[0].op
        after_loop.append(Node(op, [start, reduced], [end], dict(carried_sum.adds[0].attrs), carried_sum.adds[0].loc))
    return [
        *before_loop,
        replace(loop, operands=operands, results=results, regions=(new_condition, new_body)),
        *after_loop,
    ]


def _replaced(values: Sequence[Value], replacements: Mapping[Value, Value]) -> list[Value]:
    return [replacements.get(value, value) for value in values]


def _with(node: Node, replacements: Mapping[Value, Value]) -> Node:
    """Return the node with replaced operands and results, or the node itself if none of its operands is replaced."""
    if not any(value in replacements for value in node.operands):
        return node
    return replace(node, operands=_replaced(node.operands, replacements), results=_replaced(node.results, replacements))
