"""The same collective of the same value is made once; also the casts and layouts between collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from meshgen.ir.graph import Module, Node, Value
from meshgen.sharding.optimizations.rewrite import ELEMENTWISE, SHARDING_OPS, Walk, meaning, walk

_PURE = ELEMENTWISE | {*SHARDING_OPS, "transpose", "reshape", "broadcast_in_dim", "slice", "reverse"}


def merge_duplicates(module: Module) -> Module:
    """Before: `%a = all_gather %x on t   %b = all_gather %x on t`.   After: `%b` is `%a`."""
    seen: dict[Any, Value] = {}

    def merge(node: Node, walk: Walk) -> Sequence[Value] | None:
        if node.op not in _PURE:
            return None
        attrs = tuple(sorted(meaning(node.attrs).items()))
        key = (node.op, tuple(node.operands), attrs, node.result.type, node.result.sharding)
        if key in seen and seen[key] in walk.producers:  # not from another region: that may run less often
            return [seen[key]]
        seen[key] = node.result
        return None

    return walk(module, merge)
