"""Equal collectives of one value are done once, together with the casts, layouts and sums that lead to them."""

from __future__ import annotations

from dataclasses import replace

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, REDUCTIONS, SHARDING_OPS
from meshgen.ops.duplicates import merged_duplicates
from meshgen.ops.live import without_dead
from meshgen.sharding.optimizations.rewrite import is_bound

# Bytes of constants that are compared.
_CONSTANT_BYTES = 4096

_PURE = ELEMENTWISE | ARRANGING | REDUCTIONS | SHARDING_OPS


@module_pass("collective-cse", "materialize", "optimize", "partition", applies="unless dearer")
def collective_cse(module: Module, context: Compilation) -> Module:
    """Before: `%a = all_gather %x on t   %b = all_gather %x on t`.   After: `%b` is `%a`."""
    graph = merged_duplicates(module.graph, _group_of)
    return module if graph is module.graph else replace(module, graph=without_dead(graph))


def _group_of(node: Node) -> str | None:
    if is_constant(node):
        return "constant" if node.result.type.nbytes <= _CONSTANT_BYTES else None
    return None if node.op not in _PURE or node.regions or is_bound(node) else "pure"
