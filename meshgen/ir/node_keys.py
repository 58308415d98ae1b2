"""Forms of nodes: op, attributes and types without operands, names, locations and notes.

The repeated layers of a model have few distinct forms, so analyses use forms as cache keys.
"""

from __future__ import annotations

from typing import NamedTuple

from meshgen.ir.attributes.base import Attributes
from meshgen.ir.graph import Node, TensorType


class Form(NamedTuple):
    """An op with its attributes, operand types and result types: a cache key for properties that depend on these only."""

    op: str
    attrs: Attributes
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]


def form_of(node: Node) -> Form | None:
    """Return the form of a node, or None if the node has regions or unhashable attributes such as arrays."""
    if node.regions:
        return None
    try:
        hash(node.attrs)
    except TypeError:
        return None
    return Form(node.op, node.attrs, tuple([v.type for v in node.operands]), tuple([v.type for v in node.results]))
