"""Merge equal collectives of the same value, together with the casts, layout changes and sums before them.

before   %a = all_gather %x on t   %b = all_gather %x on t
after    %a = all_gather %x on t   (%a replaces %b)
"""

from __future__ import annotations

from dataclasses import replace

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Module, Node
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, REDUCTIONS, SHARDING_OPS
from meshgen.ops.common_subexpressions import merged_duplicates
from meshgen.ops.dead_code import without_dead
from meshgen.sharding.optimizations.walk import is_bound

# chosen: constants of more bytes are not compared, which bounds the time of comparisons
_CONSTANT_BYTES = 4096

_PURE = ELEMENTWISE | ARRANGING | REDUCTIONS | SHARDING_OPS


@module_pass("collective-cse", "materialize", "optimize", "partition", applies="unless more expensive")
def collective_cse(module: Module, context: Compilation) -> Module:
    """Return the module without repeated collectives."""
    graph = merged_duplicates(module.graph, _group_of)
    return module if graph is module.graph else replace(module, graph=without_dead(graph))


def _group_of(node: Node) -> str | None:
    if is_constant(node):
        return "constant" if node.result.type.nbytes <= _CONSTANT_BYTES else None
    return None if node.op not in _PURE or node.regions or is_bound(node) else "pure"
