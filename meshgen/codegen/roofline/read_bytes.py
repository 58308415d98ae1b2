"""What a kernel reads of its operands, as far as its body says it.

w f32[32000,4096], tokens i32[8]:  gather(convert(w), tokens)        8 rows are read, not the table
"""

from __future__ import annotations

from collections import Counter

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.classes import JOINING, LAYOUT, POINTWISE, TAKING
from meshgen.runtime.in_place import UPDATE

_ELEMENT_BY_ELEMENT = POINTWISE | LAYOUT | JOINING  # a result's element needs one of each operand at most


def read_bytes(body: Graph) -> int:
    """Bytes of operands that one launch reads, each element once.

    Of what is looked up or sliced no more counts than what is needed of the result, element-wise ops and index maps in between or not; of what is
    updated in place, nothing.
    """
    needed = Counter[Value]({value: value.type.size for value in body.outputs})
    for node in reversed(body.nodes):
        most = sum(min(needed[value], value.type.size) for value in node.results)
        for number, value in enumerate(node.operands):
            needed[value] += _needed_of(node, number, most)
    return sum(
        min(needed[value], value.type.size) * value.type.nbytes // max(1, value.type.size) for value in body.inputs
    )


def _needed_of(node: Node, number: int, most: int) -> int:
    """Elements of an operand that so many elements of the result need."""
    if node.op == UPDATE and not number:
        return 0
    if node.op in _ELEMENT_BY_ELEMENT or (node.op in TAKING and not number):
        return most
    return node.operands[number].type.size
