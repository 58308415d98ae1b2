"""Producers that a kernel of its own (a scatter, a tuple reduction) computes itself, as it reads each of their elements once.

argmax(exp(x) * 2)                          one kernel; without this, exp and multiply would be written and read again
"""

from __future__ import annotations

from collections import Counter

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import captured
from meshgen.ops.classes import LAYOUT, LOCAL_OPS, LOOKUPS, POINTWISE, VIEWS

_INDEX_MAPS = LAYOUT - LOCAL_OPS - VIEWS
_TAKEN = (POINTWISE | LAYOUT | LOOKUPS) - LOCAL_OPS - VIEWS


def absorbed_nodes(graph: Graph) -> set[Node]:
    """Element-wise ops, index maps and look-ups whose only reader is such a kernel, or one that it absorbs."""
    producer = graph.index.producers
    uses = Counter(v for node in graph.nodes for v in (*node.operands, *captured(node)))
    uses.update(graph.outputs)
    found: set[Node] = set()
    for node in graph.nodes:
        once, taken = _read_once(node), set[Node]()
        often = node.operands if node.op == "recurrence" else ()  # by many lanes: indices cost nothing
        work = [*((value, _TAKEN) for value in once), *((value, _INDEX_MAPS) for value in often if value not in once)]
        while work and len(taken) < DEFAULT.fusion.recipe_nodes:
            value, ops = work.pop()
            made = producer.get(value)
            if made is not None and made.op in ops and uses[value] == 1:
                taken.add(made)
                work += ((operand, ops) for operand in made.operands)
        found |= taken
    return found


def _read_once(node: Node) -> tuple[Value, ...]:
    """The operands of a kernel of its own that it reads element by element, once."""
    count = len(node.operands) // 2
    if node.op == "reduce_region":
        return tuple(node.operands[:count])
    if node.op == "scatter":
        return (*node.operands[:count], *node.operands[count + 1 :])
    if node.op == "recurrence":
        (body,) = node.regions
        lanes = max(value.type.size for value in body.outputs)  # which all read what has fewer elements
        return tuple(v for v, given in zip(node.operands, body.inputs, strict=True) if given.type.size == lanes)
    return ()
