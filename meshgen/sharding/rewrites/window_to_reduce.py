"""Replace a windowed reduction whose single window covers entire dims by a reduction over these dims.

    before   %1 = reduce_window add %0, %zero {window = (1, 8, 8, 1)}     f32[4,8,8,16] -> f32[4,1,1,16]
    after    %1 = reshape (reduce add %0, %zero {dims = (1, 2)})

Global average pooling has this form. Devices that hold some rows of an image each compute a partial sum; with a window,
every device would need all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.evaluate.window import fold_kind
from meshgen.sharding.rewrites.graph_passes import graph_pass


@graph_pass("window-to-reduce")
def window_to_reduce(graph: Graph) -> Graph | None:
    """Return the rewritten graph, or None if no single window covers entire dims."""
    nodes = [rewritten for node in graph.nodes for rewritten in _reduced(node)]
    return None if len(nodes) == len(graph.nodes) else replace(graph, nodes=nodes)


def _reduced(node: Node) -> list[Node]:
    """Return the node itself, or a reduction and a reshape that restores the dims of size 1."""
    if node.op != "reduce_window" or len(node.operands) != 2 or node.option is not None:
        return [node]  # a sharding option refers to the loops of the node as written
    kind, dims = fold_kind(node.regions[0]), _whole_dims(node)
    if kind is None or not dims:
        return [node]
    source = node.operands[0].type
    total = Value(source.with_shape([size for dim, size in enumerate(source.shape) if dim not in dims]), loc=node.result.loc)  # fmt: skip
    reduced = Node("reduce", list(node.operands), [total], {"dims": tuple(dims), "kind": kind}, node.loc)
    return [reduced, Node("reshape", [total], list(node.results), {}, node.loc)]


def _whole_dims(node: Node) -> Sequence[int]:
    """Return the dims along which a single window covers all rows.

    Returns an empty sequence if along some other dim a window is not just a single row.
    """
    attrs, sizes = node.attrs, node.operands[0].type.sizes
    is_plain = not any((*attrs.low, *attrs.high)) and {*attrs.base_dilations, *attrs.window_dilations} <= {1}
    moving = [dim for dim, size in enumerate(attrs.window_dimensions) if size > 1 or attrs.window_strides[dim] > 1]
    return moving if is_plain and all(attrs.window_dimensions[dim] == sizes[dim] for dim in moving) else ()
