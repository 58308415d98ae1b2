"""Analysis of recurrences: scans that one kernel can run, because each lane updates the same elements in all
iterations.

    h, ys = scan 1024 (h0, rows of ys, rows of a, rows of b) { h = a * h + b; sum of h }

The body has one iteration space, here over the elements of `h`. It reads and writes each carried value at
one index, and reduces only over dims that one tile contains entirely. Loads of rows do not depend on
carried values, so the kernel can issue them ahead of their iteration.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from meshgen.codegen.emit.plan import common_space, loops_of
from meshgen.codegen.expr import Var, variables
from meshgen.codegen.fusion.layout_indices import Index, backward
from meshgen.codegen.fusion.space import Space
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import LAYOUT, LEAVING, LOOKUPS, MADE, POINTWISE, REDUCTIONS

_LANE_BY_LANE = POINTWISE | LAYOUT - LEAVING | REDUCTIONS
_IN_LANES = _LANE_BY_LANE | LAYOUT | LOOKUPS | MADE


def carried(node: Node) -> list[int]:
    """Return the positions of the operands that a scan carries from iteration to iteration. The other operands are
    sliced into rows.
    """
    return [n for n in range(len(node.results)) if n not in node.attrs.sliced]


def lanes_of(node: Node) -> Space | None:
    """Return the iteration space of a recurrence's body, or None if a single kernel cannot run all iterations."""
    (body,) = node.regions
    if any(inner.op not in _IN_LANES and not is_constant(inner) for inner in body.nodes) or not _writes_all(node):
        return None
    depends = dependent(body, (body.inputs[n] for n in carried(node)))
    if any(inner.op not in _LANE_BY_LANE and not depends.isdisjoint(inner.operands) for inner in body.nodes):
        return None
    loops, producer = loops_of(body), body.index.producers
    outputs = [value for value in body.outputs if value.type.rank and value in producer]
    if not outputs:
        return None
    output_producers = (producer[value] for value in sorted(outputs, key=lambda value: -value.type.size))
    anchors = [*loops, *dict.fromkeys(anchor for anchor in output_producers if anchor.op in POINTWISE)]
    space = common_space(Graph(body.name, body.inputs, body.nodes, outputs), anchors)
    if space is None or math.prod(v.high + 1 for v in space.reduced) > DEFAULT.fusion.scanned_row:
        return None
    _place_forwarded(body, space, carried(node))
    return space if _is_lane_by_lane(body, space, carried(node)) and _is_written_once(body, space) else None


def _place_forwarded(body: Graph, space: Space, positions: Sequence[int]) -> None:
    """Give each output that only forwards another carried value (as in a shift register) the index of that value in
    `space`.
    """
    next_values = {body.inputs[n]: body.outputs[n] for n in positions}
    for value in body.outputs:
        source = value
        for _ in next_values:
            if source in next_values and space.locate(source) is None:
                source = next_values[source]
        if (index := space.locate(source)) is not None:
            space.index.setdefault(value, index)


def place_of(space: Space, value: Value) -> Index | None:
    """Return the index of `value` in the iteration space `space` of its body, or None if the space does not contain the
    value.

    The index of a scalar is ().
    """
    return space.locate(value) if value.type.rank else ()


def _writes_all(node: Node) -> bool:
    """Whether all operands of a scan are carried or sliced, and its iterations write every row of every stacked result."""
    rows = [n for n in node.attrs.sliced if n < len(node.results)]
    written = {n: node.regions[0].outputs[n].type.sizes[0] * node.attrs.trips for n in rows}
    is_whole = all(written[n] == node.results[n].type.sizes[0] for n in rows)
    return is_whole and len(node.operands) == len({*carried(node), *node.attrs.sliced})


def _is_written_once(body: Graph, space: Space) -> bool:
    """Whether each output of the body varies with all kept dims or with none of them.

    If an output varies with none, only the first program stores it.
    """
    kept = {v for v in space.dims if v not in space.reduced}
    output_vars = [_variables(place_of(space, value) or ()) for value in body.outputs]
    return all(kept <= varying or not kept & varying for varying in output_vars)


def _variables(index: Index) -> set[Var]:
    return {v for e in index for v in variables(e)}


def _is_lane_by_lane(body: Graph, space: Space, positions: Sequence[int]) -> bool:
    """Whether the body reads each carried value only at the index at which it outputs the next value."""
    producer = body.index.producers
    carried_index = {body.inputs[n]: place_of(space, body.outputs[n]) for n in positions}
    depends = dependent(body, carried_index)
    stack = [(value, place_of(space, value)) for value in body.outputs]
    seen = set(stack)
    while stack:
        value, index = stack.pop()
        if value not in depends:
            continue
        if index is None or (value in carried_index and carried_index[value] != index):
            return False
        node = producer.get(value)
        accesses = [] if node is None else reads(node, index)
        if node is not None and node.op in REDUCTIONS and place_of(space, value) == index:
            accesses = [
                (operand, place) for operand in node.operands if (place := place_of(space, operand)) is not None
            ]
        if accesses is None:
            return False
        stack += [access for access in accesses if access not in seen]
        seen.update(accesses)
    return True


def dependent(body: Graph, values: Iterable[Value]) -> set[Value]:
    """Return the values of a body that depend on `values`, including `values`."""
    dependents = {*values}
    for node in body.nodes:
        if any(value in dependents for value in node.operands):
            dependents.update(node.results)
    return dependents


def reads(node: Node, index: Index) -> list[tuple[Value, Index]] | None:
    """Return the operands that an element-wise op or an unconditional index map reads, each with the index that it
    reads.

    Returns None for other ops.
    """
    if node.op in POINTWISE:
        return [(value, index if value.type.rank else ()) for value in node.operands]
    return [(node.operands[0], backward(node, index))] if node.op in LAYOUT - LEAVING else None
