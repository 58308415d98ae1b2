"""What the kernels of ops with loop nests of their own compute: their algorithms do more than the ops need at least."""

from __future__ import annotations

import math

from meshgen.codegen.emit.windows import cumulative_dim
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node
from meshgen.ops.flops import node_flops, ranking_operations


def nest_operations(node: Node, body: Graph) -> float:
    """Operations of one launch of a kernel of its own: each comparison, combination and step of a search counts."""
    size, each = node.operands[0].type.size, sum(len(region.nodes) for region in node.regions)
    match node.op:
        case "recurrence":
            return node_flops(node)
        case "sort" | "top_k":
            return ranking_operations(node)
        case "reduce_window":
            init = body.index.producers.get(node.operands[-1])
            if cumulative_dim(node, init) is not None:
                return float(2 * size * each)
            return float(node.results[0].type.size * math.prod(node.attrs.window_dimensions) * each)
        case "scatter":
            indices, updates = node.operands[len(node.operands) // 2 :][:2]
            sizes, vector = indices.type.sizes, node.attrs.index_vector_dim
            count = math.prod(n for d, n in enumerate(sizes) if d != vector)
            if not node.attrs.indices_are_sorted:
                return float(size * count * (each + 1))
            return float(2 * size * math.log2(max(2, count)) + updates.type.size * each)
        case "select_and_scatter":
            window, strides = node.attrs.window_dimensions, node.attrs.window_strides
            covering = math.prod(-(-w // s) for w, s in zip(window, strides, strict=True))
            return float(size * covering * math.prod(window) * each)
        case _:
            return float(size * each)


def waiting_seconds(body: Graph) -> float:
    """How long the trips of a recurrence wait at least for the rows that they read, which are copied some trips before."""
    loops = [node for node in body.nodes if node.op == "recurrence" and len(node.operands) > len(node.results)]
    trips = max((node.attrs.trips for node in loops), default=0)
    return trips * DEFAULT.kernels.copy_seconds / DEFAULT.kernels.trips_ahead
