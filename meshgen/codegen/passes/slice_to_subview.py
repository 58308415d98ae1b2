"""A contiguous slice of a value in memory becomes a view at a byte offset, without a copy.

    before   %1 = slice %weights [2:3, 0:1024, 0:1024]       of an argument f32[12,1024,1024]
    after    %1 = subview %weights [2:3, 0:1024, 0:1024]     4 MB from byte 8 MB on

A kernel could read such rows by its index map as well, but then it would be another kernel for each layer of a stack. Slices that
overlap are left to index maps: a kernel that reads several of them loads their elements once. So are those in loops and branches,
whose regions have no views of parts.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from meshgen.codegen.passes.graphs import with_graph
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.matchers import through
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import GENERATED, REGROUPING
from meshgen.runtime.plan import ALIGNMENT


@module_pass("slice-to-subview", "partition")
def slice_to_subview(module: Module, context: Compilation) -> Module:
    """A local program with such slices as views; values keep their identity."""
    views = subviews(module.graph)
    nodes = [
        Node("subview", node.operands, node.results, node.attrs, node.loc) if node in views else node
        for node in module.graph.nodes
    ]
    return with_graph(module, replace(module.graph, nodes=nodes))


def subviews(graph: Graph) -> set[Node]:
    """The slices that are views: each of an argument, an array constant, or what a collective or another such op makes."""
    producers, slices = graph.index.producers, dict[Value, list[Node]]()
    for node in graph.nodes:
        if node.op == "slice" and byte_range(node) is not None:
            slices.setdefault(_root(node.operands[0], producers), []).append(node)
    found: set[Node] = set()
    for root, nodes in slices.items():
        maker = producers.get(root)
        is_there = maker is None or maker.op not in GENERATED or (is_constant(maker) and root.type.rank > 0)
        if is_there and not _overlap(nodes):
            found.update(nodes)
    return found


def byte_range(node: Node) -> tuple[int, int] | None:
    """The byte range [start, stop) of a slice in its operand; None if it is not a view."""
    sizes, attrs = node.operands[0].type.sizes, node.attrs
    counts = node.result.type.sizes
    outer = next((d for d, count in enumerate(counts) if count != 1), len(counts))
    whole = all(counts[d] == sizes[d] for d in range(outer + 1, len(sizes)))
    if not whole or any(step != 1 for step, count in zip(attrs.stride, counts, strict=True) if count > 1):
        return None
    itemsize = node.result.type.numpy_dtype.itemsize
    first = sum(start * math.prod(sizes[d + 1 :]) for d, start in enumerate(attrs.start)) * itemsize
    return (first, first + node.result.type.nbytes) if node.result.type.size and first % ALIGNMENT == 0 else None


def _root(value: Value, producers: Mapping[Value, Node]) -> Value:
    """The value, seen through plain reshapes."""
    return through(value, producers.get, REGROUPING)


def _overlap(nodes: Sequence[Node]) -> bool:
    ranges = sorted(found for node in nodes if (found := byte_range(node)))
    return any(first[1] > second[0] for first, second in itertools.pairwise(ranges))
