"""Analysis of producers that a standalone kernel (a scatter, tuple reduction or recurrence) computes itself.

This is possible because the standalone kernel reads each element of the producer's result only once.

    argmax(exp(x) * 2)      one kernel; otherwise the results of exp and multiply would be written and read again
"""

from __future__ import annotations

from collections import Counter

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import captured
from meshgen.ops.classes import LAYOUT, LOCAL_OPS, LOOKUPS, POINTWISE, VIEWS

_INDEX_MAPS = LAYOUT - LOCAL_OPS - VIEWS
_ABSORBABLE = (POINTWISE | LAYOUT | LOOKUPS) - LOCAL_OPS - VIEWS


def absorbed_nodes(graph: Graph) -> set[Node]:
    """Return the element-wise ops, index maps and lookups that a scatter, tuple reduction or recurrence computes
    itself.

    The only user of each of these nodes is such a kernel, or another absorbed node.
    """
    producer = graph.index.producers
    uses = Counter(v for node in graph.nodes for v in (*node.operands, *captured(node)))
    uses.update(graph.outputs)
    absorbed: set[Node] = set()
    for node in graph.nodes:
        single_reads, taken = _read_once(node), set[Node]()
        # Many lanes read the other operands of a recurrence. Only index maps of these operands are absorbed: they cost
        # nothing.
        repeated_reads = node.operands if node.op == "recurrence" else ()
        work = [
            *((value, _ABSORBABLE) for value in single_reads),
            *((value, _INDEX_MAPS) for value in repeated_reads if value not in single_reads),
        ]
        while work and len(taken) < DEFAULT.fusion.recipe_nodes:
            value, ops = work.pop()
            definition = producer.get(value)
            if definition is not None and definition.op in ops and uses[value] == 1:
                taken.add(definition)
                work += ((operand, ops) for operand in definition.operands)
        absorbed |= taken
    return absorbed


def _read_once(node: Node) -> tuple[Value, ...]:
    """Return those operands of a standalone kernel whose elements the kernel reads only once each."""
    count = len(node.operands) // 2
    if node.op == "reduce_region":
        return tuple(node.operands[:count])
    if node.op == "scatter":
        return (*node.operands[:count], *node.operands[count + 1 :])
    if node.op == "recurrence":
        (body,) = node.regions
        # Operands with fewer elements are excluded, because several lanes read the same element of such an operand.
        lanes = max(value.type.size for value in body.outputs)
        return tuple(
            v for v, body_input in zip(node.operands, body.inputs, strict=True) if body_input.type.size == lanes
        )
    return ()
