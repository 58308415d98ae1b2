"""The memory that evaluation of a graph takes: live values, and what NumPy needs for each operation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.predicates import is_control
from meshgen.ops.evaluate.evaluator import last_uses

_VIEWS = ("constant", "broadcast_in_dim", "transpose", "slice", "reverse", "iota")  # take no memory for elements
_COMPUTED_BYTES = 4  # at least, of an element: narrow types are computed in f32


def body_bytes(graph: Graph) -> int:
    """Peak live bytes while a graph is evaluated, without its inputs."""
    held: dict[Value, int] = {}
    last, live, most = last_uses(graph), 0, 0
    for number, node in enumerate(graph.nodes):
        made = {value: 0 if node.op in _VIEWS else value.type.nbytes for value in node.results}
        live += sum(made.values())
        held |= made
        most = max(most, live + _working_bytes(node))
        live -= sum(held.pop(value, 0) for value in last.get(number, ()))
    return most


def _working_bytes(node: Node) -> int:
    """Bytes of an operation besides its results."""
    types = [value.type for value in (*node.operands, *node.results)]
    if node.op == "iota":
        return 8 * node.result.type.sizes[node.attrs.dim]
    if node.op in _VIEWS:
        return 0
    computed = sum(map(_computed_bytes, types))
    if is_control(node):
        return computed + max(map(body_bytes, node.regions))
    if node.regions:  # run on whole arrays
        computed *= 2 + sum(len(region.nodes) + len(region.inputs) for region in node.regions)
    return computed + 2 * _padded_bytes(node)


def _computed_bytes(kind: TensorType) -> int:
    return kind.size * max(_COMPUTED_BYTES, kind.numpy_dtype.itemsize)


def _padded_bytes(node: Node) -> int:
    """Of an operand with padding and dilation, which may be far larger than operand and result."""
    attrs, kind = node.attrs, node.operands[0].type if node.operands else TensorType((), "i1")
    if node.op == "pad":
        shape = _padded(kind.sizes, attrs.low, attrs.high, attrs.interior)
    elif node.op in ("reduce_window", "select_and_scatter"):
        apart = getattr(attrs, "base_dilations", (1,) * kind.rank) if node.op == "reduce_window" else (1,) * kind.rank
        shape = _padded(kind.sizes, attrs.low, attrs.high, [d - 1 for d in apart])
    elif node.op == "convolution":
        spatial = [kind.sizes[d] for d in attrs.input_spatial]
        others = math.prod(kind.sizes[getattr(attrs, name)] for name in ("input_batch", "input_feature"))
        shape = [others, *_padded(spatial, attrs.low, attrs.high, [d - 1 for d in attrs.lhs_dilation])]
    else:
        return 0
    return math.prod(shape) * max(_COMPUTED_BYTES, kind.numpy_dtype.itemsize)


def _padded(sizes: Sequence[int], low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> list[int]:
    parts = zip(sizes, low, high, interior, strict=True)
    return [n + max(n - 1, 0) * between + max(before, 0) + max(after, 0) for n, before, after, between in parts]
