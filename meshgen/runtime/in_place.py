"""Analysis of kernels whose result may overwrite an operand: each element needs the operand only at its own index.

    before   %2 = add (dot %0, %1), %x        each program loads the tile of %x at which it stores
    after    the result has the bytes of %x, if nothing reads %x later

A program of a kernel stores elements of a result after it has loaded their operands, and no other program reads the
operand at these indices. If several results need an operand at the same index, one load serves all of them; then only
the first and the last result may overwrite the operand.

    after    %y = update_in_place %x, %u, %i

A dynamic_update_slice whose result has the bytes of its operand becomes an `update_in_place`, which writes only the
window.
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
# Ops with this property only for an operand that has as many elements as the result.
#
# `is_shared`: one load of the value serves all results between them that need the value.
_SAME_ELEMENT = _SAME_INDEX | REGROUPING | _UPDATES | {"mask_padding"}


class _Need(NamedTuple):
    """First and last of the results that may overwrite a value. Their elements need the value only at the same index."""

    first: int
    last: int
    is_shared: bool = True

    def both(self, other_need: _Need | None) -> _Need:
        """Return the union of two sets of results that need the same value."""
        if other_need is None:
            return self
        return _Need(
            min(self.first, other_need.first), max(self.last, other_need.last), self.is_shared and other_need.is_shared
        )

    @property
    def results(self) -> tuple[int, ...]:
        """Return the indices of the results that may overwrite the value."""
        if self.first == self.last:
            return (self.first,)
        return (self.first, self.last) if self.is_shared else ()


Pairs = Mapping[int, tuple[int, ...]]  # operand index -> indices of the results that may overwrite it


@graph_analysis
def overwrites(body: Graph) -> Pairs:
    """Return a map from the index of each operand to the indices of the results that may overwrite it.

    Takes linear time.

    Such an operand and its results have equal sizes in bytes. If a launch passes the same memory as several operands, a
    result may overwrite this memory only if the map permits it for all of these operands.
    """
    needs_of: dict[Value, _Need] = {}
    other_indices: set[Value] = set()  # values of which a result needs an element at another index
    for index, value in enumerate(body.outputs):
        needs_of[value] = _Need(index, index).both(needs_of.get(value))
    for node in reversed(body.nodes):
        other_indices.update(captured(node))
        for value in node.operands:
            if not reads_same_index(node, value) or node.result in other_indices:
                other_indices.add(value)
            elif need := needs_of.get(node.result):
                is_shared = need.is_shared and _is_at_its_index(node)
                needs_of[value] = _Need(need.first, need.last, is_shared).both(needs_of.get(value))
    other_indices.update(_in_several_segments(body))
    candidates = {
        n: needs_of[value].results
        for n, value in enumerate(body.inputs)
        if value in needs_of and value not in other_indices
    }
    fitting = {n: tuple(r for r in results if _sizes_match(body, n, r)) for n, results in candidates.items()}
    return {index: results for index, results in fitting.items() if results}


def chain(value: Value, producers: Mapping[Value, Node], op: str = UPDATE) -> tuple[Node, ...]:
    """Return the chain of `op` nodes that produce `value`. Each writes a window into the result of the previous node.

    Returns an empty tuple if another op produces `value`.
    """
    nodes: list[Node] = []
    while (node := producers.get(value)) is not None and node.op == op:
        nodes.append(node)
        value = node.operands[0]
    return tuple(reversed(nodes))


def updates(body: Graph) -> dict[int, tuple[Node, ...]]:
    """Return a map from the index of each result that is updated in place to its chain of `update_in_place` nodes.

    The first operand of a chain is an operand of the body, and a launch must pass the same memory for it and for the
    result.
    """
    producers = {node.result: node for node in body.nodes if node.op == UPDATE}
    chains = {index: chain(value, producers) for index, value in enumerate(body.outputs)}
    return {index: nodes for index, nodes in chains.items() if nodes}


def written(body: Graph) -> list[Value]:
    """Return the values that a launch of `body` stores: entire results, or the windows that it updates in place."""
    updating = updates(body)
    return [
        stored
        for index, value in enumerate(body.outputs)
        for stored in ([node.operands[1] for node in updating[index]] if index in updating else [value])
    ]


def update_fault(body: Graph) -> str:
    """Return an error text for a body with invalid updates in place, or an empty text if the body is valid.

    A valid chain starts at an operand of the body and ends at a result, has no other users, and writes windows of one
    shape.
    """
    update_nodes = {node for node in body.nodes if node.op == UPDATE}
    if not update_nodes:
        return ""
    use_counts = Counter(value for node in body.nodes for value in (*node.operands, *captured(node)))
    use_counts.update(body.outputs)
    chains = updates(body).values()
    if update_nodes - {node for nodes in chains for node in nodes}:
        return f"'{UPDATE}' must make a result of the kernel"
    for nodes in chains:
        first = nodes[0].operands[0]
        if first not in body.inputs or any(
            use_counts[value] != 1 for value in (first, *(node.result for node in nodes))
        ):
            return f"'{UPDATE}' must make a result of the kernel from an operand that nothing else reads"
        if len({node.operands[1].type.shape for node in nodes}) > 1:
            return f"'{UPDATE}' must write windows of one shape into a result"
    return ""


def _in_several_segments(body: Graph) -> list[Value]:
    """Return the operands that several segments of a kernel read.

    A result must not overwrite them, because one segment could do so before another segment reads the operand.
    """
    reads = Counter(value for segment in segments(body) for value in segment.inputs)
    return [value for value, count in reads.items() if count > 1]


def reads_same_index(node: Node, operand: Value) -> bool:
    """Whether each element of the node's result needs only the operand's element at the same index."""
    if node.op not in _SAME_ELEMENT or len(node.results) != 1 or node.regions:
        return False
    types = operand.type, node.result.type
    if node.op in _UPDATES:  # Elements outside of the window keep the operand's values.
        return operand is node.operands[0] and node.operands.count(operand) == 1
    return types[0].size == types[1].size if node.op in REGROUPING else types[0].shape == types[1].shape


def _is_at_its_index(node: Node) -> bool:
    """Whether the node's code always loads its operands at the index of the result."""
    if node.op in _UPDATES:  # If the window is the entire operand, the operand is not loaded.
        return node.operands[1].type.shape != node.result.type.shape
    return node.op in _SAME_INDEX


def _sizes_match(body: Graph, operand: int, result: int) -> bool:
    return body.inputs[operand].type.nbytes == body.outputs[result].type.nbytes
