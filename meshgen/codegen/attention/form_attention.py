"""A softmax between two products becomes one op, so that its rows are split and its keys stay whole; and so do its gradients.

    before   %s = dot_general %q, %k    %m = reduce maximum %s    %e = exponential (%s - %m)    %p = %e / (reduce add %e)    %o = dot_general %p, %v
    after    %o, %l = attention %q, %k, %v {factors = "a b d, a s d, a s e -> a b e, a b"}

Between the products may be any element-wise function of the scores, of other operands and of positions: scales, masks, biases, caps, dropout.
Left as they are: scores that something else than their gradients reads, and products that no kernel of attention takes (`codegen/fusion/attention_loops.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meshgen.codegen.attention.backward import Backward
from meshgen.codegen.attention.forward import Forward, Loops
from meshgen.codegen.attention.layouts import Layouts, parts_of
from meshgen.codegen.attention.log_sums import log_sums
from meshgen.codegen.attention.recognition import Attention, attention_of
from meshgen.codegen.attention.scalars import UnformedError
from meshgen.codegen.attention.uses import Uses
from meshgen.codegen.expr import Var
from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node
from meshgen.ir.regions import needed_nodes
from meshgen.ops.classes import DOTS

_MOST_SPLITS = 4  # of loops, each of which shows others


@module_pass("form-attention", "import", "partition", requires_ops=("exponential",))
def form_attention(module: Module, context: Compilation) -> Module:
    """The program with an op for each attention, and for its gradients, in the bodies of loops and branches too."""
    return on_graphs(module, formed)


def formed(graph: Graph) -> Graph:
    """The graph with these ops; the graph itself where it has no attention."""
    if sum(node.op in DOTS for node in graph.nodes) < 2:
        return graph
    found: dict[Node, list[Node]] = {}
    uses = Uses(graph)
    for node in graph.nodes:
        attention = attention_of(node, uses.producer, uses.of) if node.op in DOTS else None
        if attention is not None and not any(inner.option is not None for inner in attention.members):
            new = _formed(attention, uses)
            if found.keys().isdisjoint(new):
                found |= new
    if not found:
        return graph
    made = {value for new in found.values() for node in new for value in node.results}  # layouts of results are theirs
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += found.get(node, [] if made.intersection(node.results) else [node])
    return replace(graph, nodes=_live(nodes, graph))


def _live(nodes: Sequence[Node], before: Graph) -> list[Node]:
    """The nodes without those that were needed before and are not any more."""
    unneeded = {*before.nodes} - {*needed_nodes(before.nodes, before.outputs, lambda _: False)}
    return needed_nodes(nodes, before.outputs, unneeded.__contains__)


def _formed(attention: Attention, uses: Uses) -> Mapping[Node, list[Node]]:
    """What takes the place of nodes; none where the op cannot say what they compute."""
    parts: Mapping[Var, tuple[int, ...]] = {}
    for _ in range(_MOST_SPLITS):
        layouts, found = Layouts(uses.producer), dict[Node, list[Node]]()
        try:
            forward = Forward(attention, layouts, Loops.of(attention, parts), uses)
            rows = log_sums(forward.attention, forward.placed, uses)
            found = Backward(forward, uses).written() if rows is None else forward.written(rows)
        except UnformedError:
            pass
        more = parts_of(layouts.seen)
        if not more:
            return found
        parts = more  # of the loops as they were: variables are split once
    return {}
