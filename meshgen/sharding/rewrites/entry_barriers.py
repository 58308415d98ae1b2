"""Find optimization barriers at the entry of a graph: no computation precedes them, so they separate nothing.

Example: the body of a loop that recomputes layers for their gradients (`jax.checkpoint` in `jax.lax.scan`).

    %w = dynamic_slice %weights[%i]     %a, %g = optimization_barrier %w, %dy     %h = dot %a, ..

The forward layers are in another loop. With the barrier, rows could not be gathered before the iteration that reads
them, and a loop with an element-wise body would not become one kernel.
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
    """Return the optimization barriers of `graph` that do not separate any computation.

    The operands of such a barrier are only rearranged inputs, and all other computation with these inputs comes after
    the barrier.
    """
    if not any(map(is_optimization_barrier, graph.nodes)):
        return set()
    defined, roots = {v for node in graph.nodes for v in node.results}, dict[Value, AbstractSet[Value]]()
    for node in graph.nodes:
        if not _computes(node) and all(v in roots or v not in defined for v in node.operands):
            inputs = {root for v in node.operands for root in roots.get(v, {v})}
            roots.update(dict.fromkeys(node.results, inputs))
    roots |= {value: {value} for node in graph.nodes for value in used_by(node) if value not in defined}
    barriers = [
        node for node in graph.nodes if is_optimization_barrier(node) and all(v in roots for v in node.operands)
    ]
    return {node for node in barriers if not _separates(node, graph, roots)}


def _computes(node: Node) -> bool:
    """Whether a node does more than rearrange elements or update counters."""
    if is_optimization_barrier(node) or node.op in _ARRANGED:
        return False
    return node.op not in POINTWISE or any(v.type.rank or is_inexact(v.type.dtype) for v in node.results)


def _separates(barrier: Node, graph: Graph, roots: _Roots) -> bool:
    """Whether some computation with a barrier's inputs does not depend on the barrier.

    Updates of counters are ignored.
    """
    inputs = {root for v in barrier.operands for root in roots[v] if root.type.rank or is_inexact(root.type.dtype)}
    after = set(barrier.results)
    for node in graph.nodes:
        if not after.isdisjoint(used_by(node)):
            after.update(node.results)
        elif _computes(node) and any(not inputs.isdisjoint(roots.get(v, ())) for v in used_by(node)):
            return True
    return False
