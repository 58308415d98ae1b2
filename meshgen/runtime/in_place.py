"""Which results of a kernel may lie over an operand: those whose elements need it only where they are written.

    before   %2 = add (dot %0, %1), %x        every program loads the tile of %x that it stores
    after    the result has the bytes of %x, if nothing reads %x later

A program of a kernel computes its elements of a result and stores them when it has loaded what they are made of; no other program reads
an operand there. Of several results the others must not need the operand, because they may be computed when one is stored.
"""

from __future__ import annotations

from meshgen.ir.evaluate.elementwise import LIFTABLE
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import captured

_SAME_ELEMENT = LIFTABLE | {
    "bitcast_convert",
    "to_partial",
    "mask_padding",
    "reshape",
}  # of an operand of the result's size
_ELSEWHERE = -1


def overwrites(body: Graph) -> dict[int, int]:
    """Numbers of operands with the number of the result that may lie over each, in time in proportion to the body.

    Such operands have as many elements as the result, of the same size in bytes.
    """
    needed: dict[Value, int] = {}  # for the element at the same place of one result, or otherwise too

    def need(value: Value, place: int) -> None:
        needed[value] = place if needed.get(value, place) == place else _ELSEWHERE

    for number, value in enumerate(body.outputs):
        need(value, number)
    for node in reversed(body.nodes):
        places = {needed[value] for value in node.results if value in needed}
        place = places.pop() if len(places) == 1 else _ELSEWHERE
        for value in node.operands:
            need(value, place if _keeps_place(node, value) else _ELSEWHERE)
        for value in captured(node):
            need(value, _ELSEWHERE)
    found = {number: needed.get(value, _ELSEWHERE) for number, value in enumerate(body.inputs)}
    return {number: place for number, place in found.items() if place != _ELSEWHERE and _fits(body, number, place)}


def _keeps_place(node: Node, operand: Value) -> bool:
    """Whether each element of the node's result needs the operand's element at the same place only."""
    if node.op not in _SAME_ELEMENT or len(node.results) != 1 or node.regions:
        return False
    types = operand.type, node.result.type
    return types[0].size == types[1].size if node.op == "reshape" else types[0].shape == types[1].shape


def _fits(body: Graph, number: int, place: int) -> bool:
    return body.inputs[number].type.nbytes == body.outputs[place].type.nbytes
