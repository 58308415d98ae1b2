"""Collectives with several operands: one NCCL group call, as between `ncclGroupStart` and `ncclGroupEnd`.

    %a, %b = all_reduce %x, %y {axes, kind}   equals   %a = all_reduce %x {axes, kind}; %b = all_reduce %y {axes, kind}

Stage `fuse` combines messages into group calls where it would otherwise have to copy them into one buffer. In earlier
stages each collective has one operand.
"""

from __future__ import annotations

from dataclasses import replace

from meshgen.ir.graph import Node

VARIADIC = ("all_reduce", "all_gather", "reduce_scatter")


def single_operand_calls(node: Node) -> list[Node]:
    """Split a group call into one collective per operand; other nodes are returned unchanged."""
    if len(node.operands) < 2 or node.op not in VARIADIC:
        return [node]
    operand_results = zip(node.operands, node.results, strict=True)
    return [replace(node, operands=[operand], results=[result]) for operand, result in operand_results]
