"""Replace a contiguous slice of a value in memory by a view at a byte offset, without a copy.

    before   %1 = slice %weights [2:3, 0:1024, 0:1024]       of an argument f32[12,1024,1024]
    after    %1 = subview %weights [2:3, 0:1024, 0:1024]     4 MB from byte 8 MB on

As an index map, each layer's slice of a stack would need its own kernel. With a view, all layers share one kernel.
Overlapping slices are left alone, because a kernel that reads several of them as index maps loads their elements once.
Slices in loops and branches are left alone too, because regions have no subviews.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from meshgen.codegen.passes.all_graphs import with_graph
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.matchers import through
from meshgen.ir.predicates import is_constant
from meshgen.ops.classes import GENERATED, REGROUPING
from meshgen.runtime.plan import ALIGNMENT


@module_pass("slice-to-subview", "partition")
def slice_to_subview(module: Module, context: Compilation) -> Module:
    """Turn contiguous slices of values in memory into views. The results remain the same `Value` objects."""
    views = subviews(module.graph)
    nodes = [
        Node("subview", node.operands, node.results, node.attrs, node.loc) if node in views else node
        for node in module.graph.nodes
    ]
    return with_graph(module, replace(module.graph, nodes=nodes))


def subviews(graph: Graph) -> set[Node]:
    """Return the slices that can be views. They slice arguments, array constants, and results of unfused ops."""
    producers, slices = graph.index.producers, dict[Value, list[Node]]()
    for node in graph.nodes:
        if node.op == "slice" and byte_range(node) is not None:
            slices.setdefault(_root(node.operands[0], producers), []).append(node)
    views: set[Node] = set()
    for root, nodes in slices.items():
        producer = producers.get(root)
        is_in_memory = (
            producer is None or producer.op not in GENERATED or (is_constant(producer) and root.type.rank > 0)
        )
        if is_in_memory and not _overlap(nodes):
            views.update(nodes)
    return views


def byte_range(node: Node) -> tuple[int, int] | None:
    """Return the byte range [start, stop) of a slice in its operand, or None if the slice cannot be a view."""
    sizes, attrs = node.operands[0].type.sizes, node.attrs
    counts = node.result.type.sizes
    outer = next((d for d, count in enumerate(counts) if count != 1), len(counts))
    is_contiguous = all(counts[d] == sizes[d] for d in range(outer + 1, len(sizes)))
    if not is_contiguous or any(step != 1 for step, count in zip(attrs.stride, counts, strict=True) if count > 1):
        return None
    itemsize = node.result.type.numpy_dtype.itemsize
    offset = sum(start * math.prod(sizes[d + 1 :]) for d, start in enumerate(attrs.start)) * itemsize
    return (offset, offset + node.result.type.nbytes) if node.result.type.size and offset % ALIGNMENT == 0 else None


def _root(value: Value, producers: Mapping[Value, Node]) -> Value:
    """Return the value that `value` reshapes, through any number of reshapes."""
    return through(value, producers.get, REGROUPING)


def _overlap(nodes: Sequence[Node]) -> bool:
    ranges = sorted(byte_span for node in nodes if (byte_span := byte_range(node)))
    return any(first[1] > second[0] for first, second in itertools.pairwise(ranges))
