"""Nodes up to names, locations and notes: the layers of a model repeat a few forms."""

from __future__ import annotations

from typing import NamedTuple

from meshgen.ir.attributes.base import Attributes
from meshgen.ir.graph import Node, TensorType


class Form(NamedTuple):
    """An op with its attributes and types: a cache key for properties that depend on these alone."""

    op: str
    attrs: Attributes
    operands: tuple[TensorType, ...]
    results: tuple[TensorType, ...]


def form_of(node: Node) -> Form | None:
    """The node's form, hashable; None where it has regions or attributes, such as arrays, that do not compare at once."""
    if node.regions:
        return None
    try:
        hash(node.attrs)
    except TypeError:
        return None
    return Form(node.op, node.attrs, tuple([v.type for v in node.operands]), tuple([v.type for v in node.results]))
