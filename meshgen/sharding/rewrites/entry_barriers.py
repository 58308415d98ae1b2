"""Optimization barriers at the entry of a graph, which separate nothing: nothing is computed before them.

Example, the body of a loop that computes layers again for their gradients (`jax.checkpoint` in `jax.lax.scan`):

    %w = dynamic_slice %weights[%i]     %a, %g = optimization_barrier %w, %dy     %h = dot %a, ..

The forward layers are in another loop. With the barrier, rows could not be gathered before the trip that reads them, and a loop of
element-wise trips would not be one kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Set as AbstractSet

from meshgen.ir.graph import Graph, Node, Value, is_inexact
from meshgen.ir.predicates import is_optimization_barrier
from meshgen.ir.regions import used_by
from meshgen.ops.classes import ARRANGING, MADE, POINTWISE, TAKING

_ARRANGED = ARRANGING | MADE | TAKING
_Roots = Mapping[Value, AbstractSet[Value]]


def entry_barriers(graph: Graph) -> set[Node]:
    """The barriers whose operands are arranged from inputs alone, where whoever else computes with these inputs comes after the barrier."""
    if not any(map(is_optimization_barrier, graph.nodes)):
        return set()
    own, roots = {v for node in graph.nodes for v in node.results}, dict[Value, AbstractSet[Value]]()
    for node in graph.nodes:
        if not _is_computed(node) and all(v in roots or v not in own for v in node.operands):
            inputs = {root for v in node.operands for root in roots.get(v, {v})}
            roots.update(dict.fromkeys(node.results, inputs))
    roots |= {value: {value} for node in graph.nodes for value in used_by(node) if value not in own}
    barriers = [
        node for node in graph.nodes if is_optimization_barrier(node) and all(v in roots for v in node.operands)
    ]
    return {node for node in barriers if not _separates(node, graph, roots)}


def _is_computed(node: Node) -> bool:
    """Whether a node does more than arrange elements or count."""
    if is_optimization_barrier(node) or node.op in _ARRANGED:
        return False
    return node.op not in POINTWISE or any(v.type.rank or is_inexact(v.type.dtype) for v in node.results)


def _separates(barrier: Node, graph: Graph, roots: _Roots) -> bool:
    """Whether something is computed with the inputs of a barrier, counters aside, that does not come after it."""
    inputs = {root for v in barrier.operands for root in roots[v] if root.type.rank or is_inexact(root.type.dtype)}
    behind = set(barrier.results)
    for node in graph.nodes:
        if not behind.isdisjoint(used_by(node)):
            behind.update(node.results)
        elif _is_computed(node) and any(not inputs.isdisjoint(roots.get(v, ())) for v in used_by(node)):
            return True
    return False
