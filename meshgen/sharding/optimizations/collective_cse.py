"""Equal collectives of one value are done once, together with the casts, layouts and sums that lead to them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node, Value
from meshgen.ir.predicates import is_constant
from meshgen.ir.spread import stored_bytes
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, REDUCTIONS, SHARDING_OPS
from meshgen.sharding.optimizations.rewrite import Walk, walk

# Bytes of constants that are compared.
_CONSTANT_BYTES = 4096

_PURE = ELEMENTWISE | ARRANGING | REDUCTIONS | SHARDING_OPS | {"constant"}


@module_pass("collective-cse", "materialize", "optimize", "partition", applies="unless dearer")
def collective_cse(module: Module, context: Compilation) -> Module:
    """Before: `%a = all_gather %x on t   %b = all_gather %x on t`.   After: `%b` is `%a`."""
    seen: dict[Hashable, Node] = {}

    def merge(node: Node, walk: Walk) -> Sequence[Value] | None:
        if is_constant(node) and node.result.type.nbytes > _CONSTANT_BYTES:
            return None
        key = node.op, tuple(node.operands), node.result.type, node.result.sharding, _attributes(node)
        first = seen.get(key)
        if first is not None and walk.is_made(first.result):  # not from another region: that may run less often
            return first.results
        seen[key] = node
        return None

    return walk(module, context, merge, of=_PURE)


def _attributes(node: Node) -> Hashable:
    given = node.attrs.given
    return tuple([(name, _hashable(given[name])) for name in sorted(given)]) if given else ()


def _hashable(value: Any) -> Any:
    """An attribute as a key; the numbers of a constant by their bits."""
    if isinstance(value, np.ndarray):
        return value.shape, stored_bytes(value)
    return value.tobytes() if isinstance(value, np.generic) else value
