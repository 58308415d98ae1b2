"""Find windows that are written at positions known at compile time, and values that are known numbers.

Example: `%y = dynamic_update_slice %x, %u, 3, 0` with `%x : f32[8,4]`, `%u : f32[2,4]` writes rows 3 and 4: position (3, 0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Node, Value
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, MADE
from meshgen.ops.evaluate.evaluator import Evaluator
from meshgen.ops.evaluate.window import fold_kind
from meshgen.ops.registry import with_meaning

_FOLDED = (ELEMENTWISE | ARRANGING | MADE) & with_meaning()
_MADE_FROM = ("broadcast_in_dim", "convert", "reshape")


def window_start(node: Node, producers: Mapping[Value, Node]) -> tuple[int, ...] | None:
    """The position at which all of an op's update is written into the operand, or combined with it; None if unknown.

    The update is operand 1 of a dynamic_update_slice and operand 2 of a scatter.
    """
    if node.op == "dynamic_update_slice":
        found = [_folded(value, producers) for value in node.operands[2:]]
        starts = None if any(each is None for each in found) else [int(each) for each in found if each is not None]
        update = node.operands[1]
    else:
        starts, update = _scatter_position(node, producers), node.operands[-1] if node.operands else None
    if starts is None or update is None:
        return None
    ends = zip(starts, update.type.sizes, node.operands[0].type.sizes, strict=True)
    return tuple(starts) if all(start >= 0 and start + rows <= size for start, rows, size in ends) else None


def _scatter_position(node: Node, producers: Mapping[Value, Node]) -> list[int] | None:
    """The position of a scatter of one window over all dims, which replaces elements or is combined with them."""
    if node.op != "scatter" or len(node.operands) != 3:
        return None
    attrs, (operand, indices, update), (region,) = node.attrs, node.operands, node.regions
    is_write = not region.nodes and region.outputs == [region.inputs[1]]
    if (
        not (is_write or fold_kind(region))
        or len(attrs.update_window_dims) != operand.type.rank != 0
        or indices.type.rank != 1
    ):
        return None
    index = _folded(indices, producers)
    if index is None or update.type.rank != operand.type.rank:
        return None
    starts = [0] * operand.type.rank
    for dim, start in zip(attrs.scatter_dims_to_operand_dims, index, strict=True):
        starts[dim] = int(start)
    return starts


def _folded(
    value: Value, producers: Mapping[Value, Node], depth: int = DEFAULT.search.folded_index_steps
) -> np.ndarray[Any, Any] | None:
    """The known number or index vector of a value."""
    node = producers.get(value)
    if node is None or node.op not in _FOLDED or not depth or value.type.size > 16:
        return None
    operands = [_folded(operand, producers, depth - 1) for operand in node.operands]
    known = [operand for operand in operands if operand is not None]
    return Evaluator().node(node, known)[0] if len(known) == len(operands) else None


def is_zero(value: Value, producers: Mapping[Value, Node]) -> bool:
    """Whether all elements of a value are known to be zero."""
    node = producers.get(value)
    while node is not None and node.op in _MADE_FROM:
        node = producers.get(node.operands[0])
    return is_constant(node) and not np.any(node.attrs.value)
