"""Find the 0-d tensors that upstream's operations take as scalars."""

from __future__ import annotations

from collections.abc import Mapping

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ir.regions import flow_graphs

_FIRST_SCALAR = {"reduce": 1, "pad": 1, "broadcast_in_dim": 0, "dynamic_slice": 1, "dynamic_update_slice": 2}


def is_scalar_operand(node: Node, number: int) -> bool:
    """Whether upstream's form of `node` takes a scalar as operand `number`, which is a 0-d tensor in the node."""
    if node.operands[number].type.rank:
        return False
    if node.op in ("select", "clamp"):
        return bool(node.result.type.rank)
    if node.op in ("if", "case"):
        return number == 0
    if node.op in ("reduce_region", "reduce_window"):
        return number >= len(node.operands) // 2
    return number >= _FIRST_SCALAR.get(node.op, len(node.operands))


def scalar_constants(graph: Graph, constants: Mapping[Value, Node]) -> set[Value]:
    """Return the 0-d constants of a graph that all their users take as scalars."""
    tensor_uses = {value for nested in flow_graphs(graph) for value in nested.outputs}
    for nested in flow_graphs(graph):
        for node in nested.nodes:
            tensor_uses |= {value for index, value in enumerate(node.operands) if not is_scalar_operand(node, index)}
    return {value for value in constants if not value.type.rank and value not in tensor_uses}
