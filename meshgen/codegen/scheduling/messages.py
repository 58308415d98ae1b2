"""Matching of `send` and `recv`: the `recv` becomes the whole message, and the `send` moves nothing.

    before   %s = send %a {axes, destination = 2}      %r = recv %b {axes, source = 0}
    after    %s = send %a {axes, destination = 2}      %r = recv %s {axes, source = 0, destination = 2}

On a stream an NCCL send waits for its receive. Between the two are other collectives, in which the receiver would wait for
the sender; so both sides are issued at the receive.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.errors import CodegenError, Diagnostic
from meshgen.ir.attributes.sharding import axes_of
from meshgen.ir.graph import Node


def with_senders(nodes: Sequence[Node]) -> list[Node]:
    """The nodes of a graph, messages matched first in, first out for the same axes.

    Raises CodegenError MG0301 for a `recv` that has no `send` before it in the same graph, or one of another type.
    """
    sent: dict[tuple[str, ...], list[Node]] = {}
    found: list[Node] = []
    for node in nodes:
        axes = tuple(axes_of(node.attrs))
        if node.op == "send":
            sent.setdefault(axes, []).append(node)
        if node.op == "recv":
            sender = sent[axes].pop(0) if sent.get(axes) else None
            if sender is None or sender.result.type != node.result.type:
                raise CodegenError(_alone(node, axes))
            attrs = node.attrs | {"destination": sender.attrs.destination}
            node = replace(node, operands=[sender.result], attrs=attrs)
        found.append(node)
    return found


def _alone(node: Node, axes: tuple[str, ...]) -> Diagnostic:
    text = f"this recv has no matching send over {', '.join(axes)} of {node.result.type} before it in its body"
    return Diagnostic("MG0301", text, node.loc, hint="add the send; messages are matched first in, first out")
