"""Composites that no kernel claims become the operations that they stand for.

before   %o, %l = attention %q, %k, %v {factors = "h t d, h s d, h s e -> h t e, h t"}
after    %s = dot_general %q, %k    %m = reduce maximum %s    %e = exponential (%s - %m)    ...    %o = dot_general %p, %v
"""

from __future__ import annotations

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node
from meshgen.ops.classes import UNCLAIMED
from meshgen.ops.composites import expanded
from meshgen.ops.live import without_dead


@module_pass(
    "expand-composites",
    "partition",
    requires_ops=UNCLAIMED,
    enables="programs with composites, such as attention",
)
def expand_composites(module: Module, context: Compilation) -> Module:
    """A local program without such composites, in the bodies of loops and branches too."""
    return on_graphs(module, _expanded)


def _expanded(graph: Graph) -> Graph:
    after = expanded(graph, _is_unclaimed)
    return graph if after is graph else without_dead(after)


def _is_unclaimed(node: Node) -> bool:
    return node.op in UNCLAIMED
