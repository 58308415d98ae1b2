"""Collectives of several operands: one call of a group, as between `ncclGroupStart` and `ncclGroupEnd`.

    %a, %b = all_reduce %x, %y {axes, kind}      each result equals that of its operand alone

`fuse` creates them from messages that would have to be packed; earlier stages have collectives of one operand only.
"""

from __future__ import annotations

from dataclasses import replace

from meshgen.ir.graph import Node

VARIADIC = ("all_reduce", "all_gather", "reduce_scatter")


def calls_of(node: Node) -> list[Node]:
    """The collective of each operand by itself."""
    if len(node.operands) < 2 or node.op not in VARIADIC:
        return [node]
    pairs = zip(node.operands, node.results, strict=True)
    return [replace(node, operands=[operand], results=[result]) for operand, result in pairs]
