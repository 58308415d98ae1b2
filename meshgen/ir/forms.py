"""Nodes up to names, locations and notes: the layers of a model repeat a few forms."""

from __future__ import annotations

from typing import Any, NamedTuple

from meshgen.ir.graph import Node, TensorType


class Form(NamedTuple):
    """An op with its attributes and types: a cache key for properties that depend on these alone."""

    op: str
    attrs: tuple[tuple[str, Any], ...]
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]


def form_of(node: Node) -> Form | None:
    """The node's form, hashable; None where it has regions or attributes, such as arrays, that do not compare at once."""
    if node.regions:
        return None
    form = Form(
        node.op, tuple(node.attrs.items()), tuple(v.type for v in node.operands), tuple(v.type for v in node.results)
    )
    try:
        hash(form)
    except TypeError:
        return None
    return form
