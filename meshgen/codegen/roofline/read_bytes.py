"""Number of operand bytes that a kernel reads, derived from its body.

w f32[32000,4096], tokens i32[8]:  gather(convert(w), tokens)        reads 8 rows, not the table
"""

from __future__ import annotations

from collections import Counter

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.classes import JOINING, LAYOUT, POINTWISE, TAKING
from meshgen.runtime.in_place import UPDATE

# Ops for which an element of the result needs at most one element of each operand.
_ELEMENT_BY_ELEMENT = POINTWISE | LAYOUT | JOINING


def read_bytes(body: Graph) -> int:
    """Return the operand bytes (per device) that one launch reads, counting each element once.

    If an operand is looked up or sliced, even behind element-wise ops and index maps, only the elements that the result
    needs count. The operand of an in-place update does not count.
    """
    needed = Counter[Value]({value: value.type.size for value in body.outputs})
    for node in reversed(body.nodes):
        most = sum(min(needed[value], value.type.size) for value in node.results)
        for i, value in enumerate(node.operands):
            needed[value] += _needed_of(node, i, most)
    return sum(
        min(needed[value], value.type.size) * value.type.nbytes // max(1, value.type.size) for value in body.inputs
    )


def _needed_of(node: Node, number: int, most: int) -> int:
    """Return how many elements of operand `number` the node needs to compute at most `most` elements of its result."""
    if node.op == UPDATE and not number:
        return 0
    if node.op in _ELEMENT_BY_ELEMENT or (node.op in TAKING and not number):
        return most
    return node.operands[number].type.size
