"""Scans that a single kernel can run: every lane has its own elements of what is carried, from the first trip to the last.

    h, ys = scan 1024 (h0, rows of ys, rows of a, rows of b) { h = a * h + b; sum of h }

The body has one iteration space, over the elements of `h` here: what is carried is read and written at one index, and reductions are over
dims that one tile has whole. Loads of rows do not depend on what is carried, so they are under way before it is there.
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
    """Numbers of the operands of a scan that the body gives for the next trip as a whole."""
    return [n for n in range(len(node.results)) if n not in node.attrs.sliced]


def lanes_of(node: Node) -> Space | None:
    """The iteration space of a recurrence's body, if a single kernel can run all trips; None if not."""
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
    makers = (producer[value] for value in sorted(outputs, key=lambda value: -value.type.size))
    anchors = [*loops, *dict.fromkeys(each for each in makers if each.op in POINTWISE)]
    space = common_space(Graph(body.name, body.inputs, body.nodes, outputs), anchors)
    if space is None or math.prod(v.high + 1 for v in space.reduced) > DEFAULT.fusion.scanned_row:
        return None
    _place_inputs(body, space, carried(node))
    return space if _is_lane_by_lane(body, space, carried(node)) and _is_written_once(body, space) else None


def _place_inputs(body: Graph, space: Space, numbers: Sequence[int]) -> None:
    """Place what is carried and only handed on, as the one before in a sequence, like what it is handed on from."""
    given = {body.inputs[n]: body.outputs[n] for n in numbers}
    for value in body.outputs:
        first = value
        for _ in given:
            if first in given and space.locate(first) is None:
                first = given[first]
        if (place := space.locate(first)) is not None:
            space.index.setdefault(value, place)


def place_of(space: Space, value: Value) -> Index | None:
    """The index of a value in the space of its body; every lane has the whole of a scalar."""
    return space.locate(value) if value.type.rank else ()


def _writes_all(node: Node) -> bool:
    """Whether the operands are what is carried and rows, and the trips write every row of every result of rows."""
    rows = [n for n in node.attrs.sliced if n < len(node.results)]
    written = {n: node.regions[0].outputs[n].type.sizes[0] * node.attrs.trips for n in rows}
    is_whole = all(written[n] == node.results[n].type.sizes[0] for n in rows)
    return is_whole and len(node.operands) == len({*carried(node), *node.attrs.sliced})


def _is_written_once(body: Graph, space: Space) -> bool:
    """Whether each result has elements of each lane, or elements that all lanes share: the first program writes these."""
    kept = {v for v in space.dims if v not in space.reduced}
    found = [_variables(place_of(space, value) or ()) for value in body.outputs]
    return all(kept <= each or not kept & each for each in found)


def _variables(index: Index) -> set[Var]:
    return {v for e in index for v in variables(e)}


def _is_lane_by_lane(body: Graph, space: Space, numbers: Sequence[int]) -> bool:
    """Whether the body reads what is carried only at the index at which it gives it for the next trip."""
    producer = body.index.producers
    places = {body.inputs[n]: place_of(space, body.outputs[n]) for n in numbers}
    depends = dependent(body, places)
    stack = [(value, place_of(space, value)) for value in body.outputs]
    seen = set(stack)
    while stack:
        value, index = stack.pop()
        if value not in depends:
            continue
        if index is None or (value in places and places[value] != index):
            return False
        node = producer.get(value)
        found = [] if node is None else reads(node, index)
        if node is not None and node.op in REDUCTIONS and place_of(space, value) == index:
            found = [(each, place) for each in node.operands if (place := place_of(space, each)) is not None]
        if found is None:
            return False
        stack += [each for each in found if each not in seen]
        seen.update(found)
    return True


def dependent(body: Graph, values: Iterable[Value]) -> set[Value]:
    """The values of a body that depend on some of them, these too."""
    found = {*values}
    for node in body.nodes:
        if any(value in found for value in node.operands):
            found.update(node.results)
    return found


def reads(node: Node, index: Index) -> list[tuple[Value, Index]] | None:
    """The values and indices that an element-wise op or an index map without conditions needs; None for other nodes."""
    if node.op in POINTWISE:
        return [(value, index if value.type.rank else ()) for value in node.operands]
    return [(node.operands[0], backward(node, index))] if node.op in LAYOUT - LEAVING else None
