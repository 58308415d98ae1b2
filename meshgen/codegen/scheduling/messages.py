"""Matching of `send` and `recv`: the `recv` performs the entire transfer, and the `send` moves no bytes.

    before   %s = send %a {axes, destination = 2}      %r = recv %b {axes, source = 0}
    after    %s = send %a {axes, destination = 2}      %r = recv %s {axes, source = 0, destination = 2}

An NCCL send blocks its stream until the matching receive. Collectives that are issued in between would deadlock: the
receiver waits in them for the sender. Both sides are therefore issued at the position of the receive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.graph import Node


def match_transfers(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes with each `recv` connected to its `send`. They match first in, first out for the same mesh axes.

    Raises:
        CodegenError: MG0301, a `recv` has no `send` of the same type before it in the same graph.
    """
    sent: dict[tuple[str, ...], list[Node]] = {}
    matched: list[Node] = []
    for node in nodes:
        axes = tuple(axes_of(node.attrs))
        if node.op == "send":
            sent.setdefault(axes, []).append(node)
        if node.op == "recv":
            sender = sent[axes].pop(0) if sent.get(axes) else None
            if sender is None or sender.result.type != node.result.type:
                raise CodegenError(_unmatched_fault(node, axes))
            attrs = node.attrs | {"destination": sender.attrs.destination}
            node = replace(node, operands=[sender.result], attrs=attrs)
        matched.append(node)
    return matched


def _unmatched_fault(node: Node, axes: tuple[str, ...]) -> Diagnostic:
    text = f"this recv has no matching send over {', '.join(axes)} of {node.result.type} before it in its body"
    return Diagnostic("MG0301", text, node.loc, hint="add the send; messages are matched first in, first out")
