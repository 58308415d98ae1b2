"""Eliminate common subexpressions, so that equal values are computed, and communicated, only once.

    before   %a = reduce %x   %b = reduce %x
    after    %a = reduce %x   (%a replaces %b)

Libraries compute the mean of a value again for its variance, and each copy would be reduced separately. Constants and
values computed only from constants are not merged: every device generates its own, and sharing would tie together
unrelated parts of the program. Slices that are concatenated with other rows, as in a rotation, are not merged either:
they move with the other rows, whereas a separate use of the same rows may be reduced.
"""

from __future__ import annotations

from dataclasses import replace

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import all_nodes
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, JOINING, LOOPS, MADE, TAKING
from meshgen.ops.common_subexpressions import Grouping, merged_duplicates
from meshgen.ops.evaluate.window import fold_kind

_PURE = ELEMENTWISE | ARRANGING | LOOPS | MADE | TAKING


@module_pass("cse", "import")
def cse(module: Module, context: Compilation) -> Module:
    """Return the module without common subexpressions, or the module itself if it has none."""
    graph = merged_duplicates(module.graph, _grouping(module.graph), keeps_constants=True)
    return module if graph is module.graph else replace(module, graph=graph)


def common_values(graph: Graph) -> dict[Value, Value]:
    """Map each value that repeats an earlier computation to the earlier value."""
    first: dict[Value, Value] = {}
    merged_duplicates(graph, _grouping(graph), keeps_constants=True, first=first)
    return first


def _grouping(graph: Graph) -> Grouping:
    joined = {value for node in all_nodes(graph) if node.op in JOINING for value in node.operands}

    def group_of(node: Node) -> bool | None:
        is_pure = node.op in _PURE or (node.op == "reduce_window" and fold_kind(node.regions[0]) is not None)
        return node.op == "slice" and node.result in joined if is_pure else None

    return group_of
