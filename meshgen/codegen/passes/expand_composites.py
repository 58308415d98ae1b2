"""Replace composite ops that no kernel implements by the primitive ops that define them.

before   %o, %l = attention %q, %k, %v {factors = "h t d, h s d, h s e -> h t e, h t"}
after    %s = dot_general %q, %k
         %m = reduce maximum %s
         %e = exponential (%s - %m)
         ...
         %o = dot_general %p, %v
"""

from __future__ import annotations

from meshgen.codegen.fusion.attention_loops import has_kernel
from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node
from meshgen.ops.classes import ATTENTIONS
from meshgen.ops.composites import expanded, is_composite
from meshgen.ops.dead_code import without_dead
from meshgen.ops.registry import composites


@module_pass(
    "expand-composites",
    "partition",
    requires_ops=composites(),
    enables="programs with composites, such as attention",
)
def expand_composites(module: Module, context: Compilation) -> Module:
    """Expand the composites that no kernel implements, including those in the bodies of loops and branches."""
    return on_graphs(module, _expanded)


def _expanded(graph: Graph) -> Graph:
    after = expanded(graph, _is_unclaimed)
    return graph if after is graph else without_dead(after)


def _is_unclaimed(node: Node) -> bool:
    return is_composite(node) and not (node.op in ATTENTIONS and has_kernel(node))
