"""Common subexpressions are computed, and so communicated, once.

Libraries compute the mean of a value again in its variance: each copy would be reduced on its own. Constants
and values made of constants alone are not merged: every device makes its own, and a shared one would tie
parts of the program that have nothing else in common. Nor are slices that are concatenated with other rows, as in a rotation:
they move with these, while the same rows by themselves may be summed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.spread import stored_bytes
from meshgen.ops.classes import ARRANGING, ELEMENTWISE, JOINING, LOOPS, MADE, TAKING
from meshgen.ops.evaluate.window import fold_kind

_PURE = ELEMENTWISE | ARRANGING | LOOPS | MADE | TAKING


@module_pass("cse", "import")
def cse(module: Module, context: Compilation) -> Module:
    """Before: `%a = reduce %x   %b = reduce %x`.   After: `%b` is `%a`. The module itself if nothing occurs twice."""
    graph = _merged_duplicates(module.graph, {}, {})
    return module if graph is module.graph else replace(module, graph=graph)


def common_values(graph: Graph) -> dict[Value, Value]:
    """Each value that is computed before under another name, and that value."""
    found: dict[Value, Value] = {}
    _merged_duplicates(graph, {}, found)
    return found


def _merged_duplicates(graph: Graph, outer: dict[Value, Value], found: dict[Value, Value]) -> Graph:
    """The graph with uses of duplicates replaced; `outer` has those of the graphs around it, `found` gets all."""
    same = dict(outer)
    made: dict[Any, Value] = {}  # the first constant that is made so
    alike: dict[Value, Value] = {}  # a constant, and the first that is made as it is
    seen: dict[Any, list[Value]] = {}
    nodes: list[Node] = []
    joined = {value for node in graph.nodes if node.op in JOINING for value in node.operands}
    for node in graph.nodes:
        is_part = node.op == "slice" and node.result in joined
        node = _with_uses(node, same, found)
        key = _computation_key(node, alike)
        key = key and (*key, is_part)
        if key is not None and all(value in alike for value in node.operands):
            alike[node.result] = made.setdefault(key, node.result)
        elif key in seen:
            same.update(zip(node.results, seen[key], strict=True))
            found.update(zip(node.results, seen[key], strict=True))
            continue
        elif key is not None:
            seen[key] = node.results
        nodes.append(node)
    outputs = [same.get(value, value) for value in graph.outputs]
    if len(nodes) == len(graph.nodes) and all(a is b for a, b in zip(nodes, graph.nodes, strict=True)):
        return graph if outputs == graph.outputs else replace(graph, outputs=outputs)
    return Graph(graph.name, graph.inputs, nodes, outputs)


def _with_uses(node: Node, same: dict[Value, Value], found: dict[Value, Value]) -> Node:
    operands = [same.get(value, value) for value in node.operands]
    regions = tuple(_merged_duplicates(region, same, found) for region in node.regions)
    changed = operands != node.operands or any(a is not b for a, b in zip(regions, node.regions, strict=True))
    return replace(node, operands=operands, regions=regions) if changed else node


def _computation_key(node: Node, alike: dict[Value, Value]) -> Any:
    """Equal for nodes that compute the same; None for a node that is not looked at."""
    fold = fold_kind(node.regions[0]) if node.op == "reduce_window" else None
    if fold is None and (node.op not in _PURE or node.regions):
        return None
    attrs = tuple(sorted((name, _hashable(value)) for name, value in node.attrs.given.items()))
    return node.op, fold, tuple(alike.get(value, value) for value in node.operands), attrs, node.result.type


def _hashable(value: Any) -> Any:
    """An attribute as a key; the numbers of a constant by their bits."""
    if isinstance(value, np.ndarray):
        return value.shape, stored_bytes(value)
    return value.tobytes() if isinstance(value, np.generic) else repr(value)
