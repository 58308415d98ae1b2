"""Identity ops: nodes whose result equals an operand, because of their attributes and types."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.ir.graph import Node, Value


def identity_operand(node: Node, operands: Sequence[Value]) -> Value | None:
    """Return the operand that equals the result in elements, order and type, or None if there is none.

    Args:
        operands: the values that the node reads; they may differ from `node.operands`.
    """
    if len(node.results) != 1 or not operands:
        return None
    attrs, result_type, (value, *_) = node.attrs, node.result.type, operands
    match node.op:
        case "reshape" | "slice" | "convert" | "bitcast_convert":
            return value if value.type == result_type else None
        case "broadcast_in_dim":
            return value if value.type == result_type and list(attrs.dims) == sorted(attrs.dims) else None
        case "transpose":
            return value if list(attrs.perm) == sorted(attrs.perm) else None
        case "reverse":
            return value if all(value.type.shape[dim] == 1 for dim in attrs.dims) else None
        case "pad":
            return None if any((*attrs.low, *attrs.high, *attrs.interior)) else value
        case "concatenate":
            parts = [part for part in operands if part.type.shape[attrs.dim] != 0]
            return parts[0] if len(parts) == 1 else None
        case "to_partial":
            return None if attrs.axes else value
        case _:
            return None
