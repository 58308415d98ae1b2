"""Common subexpressions are computed, and so communicated, once.

Libraries compute the mean of a value again in its variance: each copy would be reduced on its own. Constants
and values made of constants alone are not merged: every device makes its own, and a shared one would tie
parts of the program that have nothing else in common. Nor are slices that are concatenated with other rows, as in a rotation:
they move with these, while the same rows by themselves may be summed.
"""

from __future__ import annotations

from dataclasses import replace

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import all_nodes
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, JOINING, LOOPS, MADE, TAKING
from meshgen.ops.duplicates import Grouping, merged_duplicates
from meshgen.ops.evaluate.window import fold_kind

_PURE = ELEMENTWISE | ARRANGING | LOOPS | MADE | TAKING


@module_pass("cse", "import")
def cse(module: Module, context: Compilation) -> Module:
    """Before: `%a = reduce %x   %b = reduce %x`.   After: `%b` is `%a`. The module itself if nothing occurs twice."""
    graph = merged_duplicates(module.graph, _grouping(module.graph), keeps_constants=True)
    return module if graph is module.graph else replace(module, graph=graph)


def common_values(graph: Graph) -> dict[Value, Value]:
    """Each value that is computed before under another name, and that value."""
    first: dict[Value, Value] = {}
    merged_duplicates(graph, _grouping(graph), keeps_constants=True, first=first)
    return first


def _grouping(graph: Graph) -> Grouping:
    joined = {value for node in all_nodes(graph) if node.op in JOINING for value in node.operands}

    def group_of(node: Node) -> bool | None:
        is_pure = node.op in _PURE or (node.op == "reduce_window" and fold_kind(node.regions[0]) is not None)
        return node.op == "slice" and node.result in joined if is_pure else None

    return group_of
