"""Memory that the NumPy evaluation of a graph needs: live values, and the temporaries of each operation."""

from __future__ import annotations

import math
from collections.abc import Sequence

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.predicates import is_control
from meshgen.ops.evaluate.evaluator import last_uses

# The results of these ops are NumPy views, without memory for their elements.
_VIEWS = ("constant", "broadcast_in_dim", "transpose", "slice", "reverse", "iota")
_COMPUTED_BYTES = 4  # The minimum size of a computed element in bytes: narrow types are computed in f32.


def body_bytes(graph: Graph) -> int:
    """Return the peak number of live bytes during the evaluation of a graph, excluding its inputs."""
    live_values: dict[Value, int] = {}
    dying_values, live, peak = last_uses(graph), 0, 0
    for index, node in enumerate(graph.nodes):
        result_bytes = {value: 0 if node.op in _VIEWS else value.type.nbytes for value in node.results}
        live += sum(result_bytes.values())
        live_values |= result_bytes
        peak = max(peak, live + _working_bytes(node))
        live -= sum(live_values.pop(value, 0) for value in dying_values.get(index, ()))
    return peak


def _working_bytes(node: Node) -> int:
    """Return the bytes of the temporaries that NumPy allocates for an operation, excluding the results."""
    types = [value.type for value in (*node.operands, *node.results)]
    if node.op == "iota":
        return 8 * node.result.type.sizes[node.attrs.dim]
    if node.op in _VIEWS:
        return 0
    computed = sum(map(_computed_bytes, types))
    if is_control(node):
        return computed + max(map(body_bytes, node.regions))
    if node.regions:  # The evaluator runs all other regions on entire arrays, so each value of a region is an array.
        computed *= 2 + sum(len(region.nodes) + len(region.inputs) for region in node.regions)
    return computed + 2 * _padded_bytes(node)


def _computed_bytes(kind: TensorType) -> int:
    return kind.size * max(_COMPUTED_BYTES, kind.numpy_dtype.itemsize)


def _padded_bytes(node: Node) -> int:
    """Return the bytes of the operand after padding and dilation. They may be far more than those of operand and
    result.
    """
    attrs, kind = node.attrs, node.operands[0].type if node.operands else TensorType((), "i1")
    if node.op == "pad":
        shape = _padded(kind.sizes, attrs.low, attrs.high, attrs.interior)
    elif node.op in ("reduce_window", "select_and_scatter"):
        dilations = (
            getattr(attrs, "base_dilations", (1,) * kind.rank) if node.op == "reduce_window" else (1,) * kind.rank
        )
        shape = _padded(kind.sizes, attrs.low, attrs.high, [d - 1 for d in dilations])
    elif node.op == "convolution":
        spatial = [kind.sizes[d] for d in attrs.input_spatial]
        batch_and_features = math.prod(kind.sizes[getattr(attrs, name)] for name in ("input_batch", "input_feature"))
        shape = [batch_and_features, *_padded(spatial, attrs.low, attrs.high, [d - 1 for d in attrs.lhs_dilation])]
    else:
        return 0
    return math.prod(shape) * max(_COMPUTED_BYTES, kind.numpy_dtype.itemsize)


def _padded(sizes: Sequence[int], low: Sequence[int], high: Sequence[int], interior: Sequence[int]) -> list[int]:
    parts = zip(sizes, low, high, interior, strict=True)
    return [n + max(n - 1, 0) * between + max(before, 0) + max(after, 0) for n, before, after, between in parts]
