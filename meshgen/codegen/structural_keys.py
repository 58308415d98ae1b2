"""Keys of attributes and of graphs that are equal where two mean the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from meshgen.ir.graph import Graph, Value
from meshgen.ir.spread import stored_bytes


def structure(body: Graph, outer: Mapping[Value, Any] | None = None) -> Any:
    """A key that is equal for bodies that differ in names and locations only; `outer` numbers captured values."""
    depth = 0 if outer is None else 1 + max((level for level, _ in outer.values()), default=0)
    number: dict[Value, Any] = {**(outer or {}), **{value: (depth, n) for n, value in enumerate(body.values())}}
    nodes = tuple(
        (n.op, tuple(number[v] for v in n.operands), tuple(v.type for v in n.results), attribute_key(n.attrs.given),
         tuple(structure(region, number) for region in n.regions))
        for n in body.nodes
    )  # fmt: skip
    return tuple(v.type for v in body.inputs), nodes, tuple(number[v] for v in body.outputs)


def attribute_key(value: Any) -> Any:
    """Attributes in a form that compares by value."""
    if isinstance(value, dict):
        return tuple((k, attribute_key(v)) for k, v in sorted(value.items()))
    if isinstance(value, (list, tuple)):
        return tuple(attribute_key(v) for v in value)
    if isinstance(value, np.ndarray):
        return value.shape, str(value.dtype), stored_bytes(value)
    return type(value).__name__, value
