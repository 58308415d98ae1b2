"""A reduction over one window that is a whole dim becomes a reduction of that dim.

    before   %1 = reduce_window add %0, %zero {window = (1, 8, 8, 1)}     f32[4,8,8,16] -> f32[4,1,1,16]
    after    %1 = reshape (reduce add %0, %zero {dims = (1, 2)})

Pooling over the whole of a picture is written so. Devices that hold some of its rows have a partial sum each; as a window,
every device would have to read all rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from meshgen.ir.graph import Graph, Node, Value
from meshgen.ops.evaluate.window import fold_kind
from meshgen.sharding.rewrites.graph_passes import graph_pass


@graph_pass("window-to-reduce")
def window_to_reduce(graph: Graph) -> Graph | None:
    """Before: `reduce_window add %x {window = (1, 8)}` of f32[4,8].   After: `reduce add %x {dims = (1,)}`. None if there is none."""
    nodes = [made for node in graph.nodes for made in _reduced(node)]
    return None if len(nodes) == len(graph.nodes) else replace(graph, nodes=nodes)


def _reduced(node: Node) -> list[Node]:
    """The node, or a reduction and what brings back the dims of size 1."""
    if node.op != "reduce_window" or len(node.operands) != 2 or node.option is not None:
        return [node]  # an option counts the loops of the node as written
    kind, dims = fold_kind(node.regions[0]), _whole_dims(node)
    if kind is None or not dims:
        return [node]
    source = node.operands[0].type
    total = Value(source.with_shape([size for dim, size in enumerate(source.shape) if dim not in dims]), loc=node.result.loc)  # fmt: skip
    reduced = Node("reduce", list(node.operands), [total], {"dims": tuple(dims), "kind": kind}, node.loc)
    return [reduced, Node("reshape", [total], list(node.results), {}, node.loc)]


def _whole_dims(node: Node) -> Sequence[int]:
    """The dims along which there is one window, of all rows; none if there are windows along other dims."""
    attrs, sizes = node.attrs, node.operands[0].type.sizes
    is_plain = not any((*attrs.low, *attrs.high)) and {*attrs.base_dilations, *attrs.window_dilations} <= {1}
    moving = [dim for dim, size in enumerate(attrs.window_dimensions) if size > 1 or attrs.window_strides[dim] > 1]
    return moving if is_plain and all(attrs.window_dimensions[dim] == sizes[dim] for dim in moving) else ()
