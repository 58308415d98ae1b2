"""Sharding rules of the two ends of a transfer between meshes: `transfer_send` and `transfer_recv`.

A send is like an output of the program on the sending mesh, and a receive is like an input. Any dim may be sharded.
"""

from __future__ import annotations

from meshgen.ir.graph import Node
from meshgen.ops.rules.rule import Rule, letters, rule


def transfer_send(node: Node) -> Rule:
    return _end(node, [_dims(node.operands[0].type.rank), *["()"] * (len(node.operands) - 1)], ["()"])


def transfer_recv(node: Node) -> Rule:
    return _end(node, ["()"] * len(node.operands), [_dims(node.results[0].type.rank), "()"])


def _dims(rank: int) -> str:
    return " ".join(letters(rank)) or "()"


def _end(node: Node, operands: list[str], results: list[str]) -> Rule:
    types = [[value.type for value in side] for side in (node.operands, node.results)]
    return rule(f"{', '.join(operands)} -> {', '.join(results)}", *types)
