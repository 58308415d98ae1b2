"""Results of a kernel that may overwrite an operand: those whose elements need it only at their own index.

    before   %2 = add (dot %0, %1), %x        every program loads the tile of %x that it stores
    after    the result has the bytes of %x, if nothing reads %x later

A program of a kernel stores its elements of a result after it has loaded their operands; no other program reads
an operand there. Where several results need an operand at the same index it is loaded once for all of them: the first and
the last of them may overwrite it then.

    after    %y = update_in_place %x, %u, %i

Where a dynamic_update_slice is known to have the bytes of its operand, it becomes an update in place: its kernel writes the window alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from meshgen.ir.analysis import graph_analysis
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import captured
from meshgen.ops.classes import ELEMENTWISE, POINTWISE, REGROUPING
from meshgen.ops.segments import segments

UPDATE = "update_in_place"
_UPDATES = {"dynamic_update_slice", UPDATE}
_SAME_INDEX = ELEMENTWISE | POINTWISE
_SAME_ELEMENT = _SAME_INDEX | REGROUPING | _UPDATES | {"mask_padding"}  # of an operand of the result's size


class _Need(NamedTuple):
    """The first and the last result that need a value at their own index only, and whether all share one load of it."""

    first: int
    last: int
    is_shared: bool = True

    def both(self, other: _Need | None) -> _Need:
        if other is None:
            return self
        return _Need(min(self.first, other.first), max(self.last, other.last), self.is_shared and other.is_shared)

    @property
    def results(self) -> tuple[int, ...]:
        if self.first == self.last:
            return (self.first,)
        return (self.first, self.last) if self.is_shared else ()


Pairs = Mapping[int, tuple[int, ...]]  # numbers of operands, with those of the results that may overwrite each


@graph_analysis
def overwrites(body: Graph) -> Pairs:
    """Numbers of operands with those of results that may overwrite each, in linear time.

    Such operands have as many elements as the result, of the same size in bytes. Where a launch is given the same memory for
    several operands, this must hold for all of them.
    """
    needed: dict[Value, _Need] = {}
    elsewhere: set[Value] = set()  # values that are needed at other indices
    for number, value in enumerate(body.outputs):
        needed[value] = _Need(number, number).both(needed.get(value))
    for node in reversed(body.nodes):
        elsewhere.update(captured(node))
        for value in node.operands:
            if not keeps_place(node, value) or node.result in elsewhere:
                elsewhere.add(value)
            elif need := needed.get(node.result):
                is_shared = need.is_shared and _is_at_its_index(node)
                needed[value] = _Need(need.first, need.last, is_shared).both(needed.get(value))
    elsewhere.update(_in_several_segments(body))
    found = {
        n: needed[value].results for n, value in enumerate(body.inputs) if value in needed and value not in elsewhere
    }
    fitting = {n: tuple(r for r in results if _sizes_match(body, n, r)) for n, results in found.items()}
    return {number: results for number, results in fitting.items() if results}


def chain(value: Value, makers: Mapping[Value, Node], op: str = UPDATE) -> tuple[Node, ...]:
    """The nodes that make a value by writing windows, each into the result of the one before; none if another op makes it."""
    found: list[Node] = []
    while (node := makers.get(value)) is not None and node.op == op:
        found.append(node)
        value = node.operands[0]
    return tuple(reversed(found))


def updates(body: Graph) -> dict[int, tuple[Node, ...]]:
    """The results by number that are updated in place, and how, one window after the other.

    Each result must have the bytes of the first node's first operand, an operand of the body.
    """
    makers = {node.result: node for node in body.nodes if node.op == UPDATE}
    found = {number: chain(value, makers) for number, value in enumerate(body.outputs)}
    return {number: nodes for number, nodes in found.items() if nodes}


def written(body: Graph) -> list[Value]:
    """What a launch writes of its results: all of one, or the windows that it updates in place."""
    found = updates(body)
    return [
        part
        for number, value in enumerate(body.outputs)
        for part in ([node.operands[1] for node in found[number]] if number in found else [value])
    ]


def update_fault(body: Graph) -> str:
    """The fault of a body with updates in place that other elements or results depend on, or of several shapes; empty if there is none."""
    found = {node for node in body.nodes if node.op == UPDATE}
    if not found:
        return ""
    used = Counter(value for node in body.nodes for value in (*node.operands, *captured(node)))
    used.update(body.outputs)
    chains = updates(body).values()
    if found - {node for nodes in chains for node in nodes}:
        return f"'{UPDATE}' must make a result of the kernel"
    for nodes in chains:
        first = nodes[0].operands[0]
        if first not in body.inputs or any(used[value] != 1 for value in (first, *(node.result for node in nodes))):
            return f"'{UPDATE}' must make a result of the kernel from an operand that nothing else reads"
        if len({node.operands[1].type.shape for node in nodes}) > 1:
            return f"'{UPDATE}' must write windows of one shape into a result"
    return ""


def _in_several_segments(body: Graph) -> list[Value]:
    """Operands that programs of several segments read: one of them could overwrite what another has not read."""
    reads = Counter(value for segment in segments(body) for value in segment.inputs)
    return [value for value, count in reads.items() if count > 1]


def keeps_place(node: Node, operand: Value) -> bool:
    """Whether each element of the node's result needs the operand's element at the same index only."""
    if node.op not in _SAME_ELEMENT or len(node.results) != 1 or node.regions:
        return False
    types = operand.type, node.result.type
    if node.op in _UPDATES:  # elements that are not updated stay in place
        return operand is node.operands[0] and node.operands.count(operand) == 1
    return types[0].size == types[1].size if node.op in REGROUPING else types[0].shape == types[1].shape


def _is_at_its_index(node: Node) -> bool:
    """Whether the operands are loaded at the index of the result, unconditionally."""
    if node.op in _UPDATES:  # a fully updated operand is not loaded at all
        return node.operands[1].type.shape != node.result.type.shape
    return node.op in _SAME_INDEX


def _sizes_match(body: Graph, number: int, place: int) -> bool:
    return body.inputs[number].type.nbytes == body.outputs[place].type.nbytes
