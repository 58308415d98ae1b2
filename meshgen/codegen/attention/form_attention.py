"""Replace a softmax between two matmuls by one attention op, and its gradients by gradient ops.

    before   %s = dot_general %q, %k    %m = reduce maximum %s    %e = exponential (%s - %m)    %p = %e / (reduce add
    %e)    %o = dot_general %p, %v
    after    %o, %l = attention %q, %k, %v {factors = "a b d, a s d, a s e -> a b e, a b"}

With one op, sharding can split the rows while the keys of a row stay together. The function between the matmuls may be
any element-wise function of the scores, of other operands and of positions: scales, masks, biases, caps, dropout. Two
cases stay unchanged: scores with users other than their gradients, and matmuls for which no attention kernel exists
(`codegen/fusion/attention_loops.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from meshgen.codegen.attention.backward import Backward
from meshgen.codegen.attention.forward import Forward, Loops
from meshgen.codegen.attention.layouts import Layouts, parts_of
from meshgen.codegen.attention.log_sums import log_sums
from meshgen.codegen.attention.recognition import Attention, attention_of
from meshgen.codegen.attention.scalar_regions import UnformedError
from meshgen.codegen.attention.users import Uses
from meshgen.codegen.expr import Var
from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node
from meshgen.ir.regions import needed_nodes
from meshgen.ops.classes import DOTS

_MOST_SPLITS = 4  # most rounds of splitting loops, each of which may reveal further splits. Chosen: bounds the search


@module_pass("form-attention", "import", "partition", requires_ops=("exponential",))
def form_attention(module: Module, context: Compilation) -> Module:
    """Rewrite a softmax between two matmuls, and its gradients, into attention ops, also in bodies of loops and
    branches.
    """
    return on_graphs(module, formed)


def formed(graph: Graph) -> Graph:
    """Return the graph with attention ops, or the graph itself if it contains no attention."""
    if sum(node.op in DOTS for node in graph.nodes) < 2:
        return graph
    replacements: dict[Node, list[Node]] = {}
    uses = Uses(graph)
    for node in graph.nodes:
        attention = attention_of(node, uses.producer, uses.of) if node.op in DOTS else None
        if attention is not None and not any(inner.option is not None for inner in attention.members):
            new = _formed(attention, uses)
            if replacements.keys().isdisjoint(new):
                replacements |= new
    if not replacements:
        return graph
    # Layout ops after the second matmul belong to the attention and are replaced with it.
    replaced_values = {value for new in replacements.values() for node in new for value in node.results}
    nodes: list[Node] = []
    for node in graph.nodes:
        nodes += replacements.get(node, [] if replaced_values.intersection(node.results) else [node])
    return replace(graph, nodes=_live(nodes, graph))


def _live(nodes: Sequence[Node], before: Graph) -> list[Node]:
    """Return `nodes` without nodes whose results the rewrite left unused. Nodes that were unused before are kept."""
    unneeded = {*before.nodes} - {*needed_nodes(before.nodes, before.outputs, lambda _: False)}
    return needed_nodes(nodes, before.outputs, unneeded.__contains__)


def _formed(attention: Attention, uses: Uses) -> Mapping[Node, list[Node]]:
    """Return the nodes that replace each node of the attention and of its gradients.

    Returns an empty mapping if the attention ops cannot express what the nodes compute.
    """
    parts: Mapping[Var, tuple[int, ...]] = {}
    for _ in range(_MOST_SPLITS):
        layouts, replacements = Layouts(uses.producer), dict[Node, list[Node]]()
        try:
            forward = Forward(attention, layouts, Loops.of(attention, parts), uses)
            rows = log_sums(forward.attention, forward.placed, uses)
            replacements = Backward(forward, uses).written() if rows is None else forward.written(rows)
        except UnformedError:
            pass
        new_parts = parts_of(layouts.seen)
        if not new_parts:
            return replacements
        parts = new_parts  # The sizes in `parts` split an original variable, and each variable is split only once.
    return {}
