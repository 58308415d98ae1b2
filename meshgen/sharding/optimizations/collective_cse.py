"""Equal collectives of one value are done once, together with the casts, layouts and sums that lead to them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Module, Node, Value
from meshgen.ir.predicates import is_constant
from meshgen.ir.spread import stored_bytes
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, REDUCTIONS, SHARDING_OPS
from meshgen.sharding.optimizations.rewrite import Walk, walk

_PURE = ELEMENTWISE | ARRANGING | REDUCTIONS | SHARDING_OPS


def collective_cse(module: Module) -> Module:
    """Before: `%a = all_gather %x on t   %b = all_gather %x on t`.   After: `%b` is `%a`."""
    seen: dict[Any, Value] = {}

    def merge(node: Node, walk: Walk) -> Sequence[Value] | None:
        if node.op not in _PURE and not is_constant(node):
            return None
        if is_constant(node) and node.result.type.nbytes > DEFAULT.search.constant_bytes:
            return None
        attrs = tuple(sorted((name, _hashable(value)) for name, value in node.attrs.given.items()))
        key = (node.op, tuple(node.operands), attrs, node.result.type, node.result.sharding)
        if key in seen and seen[key] in walk.producers:  # not from another region: that may run less often
            return [seen[key]]
        seen[key] = node.result
        return None

    return walk(module, merge)


def _hashable(value: Any) -> Any:
    """An attribute as a key; the numbers of a constant by their bits."""
    if isinstance(value, np.ndarray):
        return value.shape, stored_bytes(value)
    return value.tobytes() if isinstance(value, np.generic) else value
