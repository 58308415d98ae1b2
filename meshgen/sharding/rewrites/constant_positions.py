"""Find windows that are written at positions known at compile time.

Example: `%y = dynamic_update_slice %x, %u, 3, 0` with `%x : f32[8,4]`, `%u : f32[2,4]` writes rows 3 and 4: position
(3, 0).
"""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.ir.graph import Node, Value
from meshgen.ops.constants import constant_of
from meshgen.ops.evaluate.window import fold_kind


def window_start(node: Node, producers: Mapping[Value, Node]) -> tuple[int, ...] | None:
    """Return the position at which an op writes its update into the operand, or combines it with the operand.

    Returns None if the position is unknown, or if the update is not one window. The update is operand 1 of a
    dynamic_update_slice, and operand 2 of a scatter.
    """
    if node.op == "dynamic_update_slice":
        constants = [constant_of(value, producers.get) for value in node.operands[2:]]
        starts = (
            None
            if any(constant is None for constant in constants)
            else [int(constant) for constant in constants if constant is not None]
        )
        update = node.operands[1]
    else:
        starts, update = _scatter_position(node, producers), node.operands[-1] if node.operands else None
    if starts is None or update is None:
        return None
    ends = zip(starts, update.type.sizes, node.operands[0].type.sizes, strict=True)
    return tuple(starts) if all(start >= 0 and start + rows <= size for start, rows, size in ends) else None


def _scatter_position(node: Node, producers: Mapping[Value, Node]) -> list[int] | None:
    """Return the constant position at which a scatter writes or combines one window that covers all dims.

    Returns None for other scatters.
    """
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
    index = constant_of(indices, producers.get)
    if index is None or update.type.rank != operand.type.rank:
        return None
    starts = [0] * operand.type.rank
    for dim, start in zip(attrs.scatter_dims_to_operand_dims, index, strict=True):
        starts[dim] = int(start)
    return starts
