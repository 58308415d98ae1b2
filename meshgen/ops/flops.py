"""Arithmetic operation counts of nodes and graphs. Data movement counts as no operation."""

from __future__ import annotations

import math

from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node
from meshgen.ir.loops import trip_count
from meshgen.ir.op_names import REPEATED, WITH_PROGRAMS
from meshgen.ir.predicates import is_loop, is_scan
from meshgen.ir.symbols import Dim
from meshgen.ops.evaluate.window import fold_kind
from meshgen.ops.op import TypeOf, per_result
from meshgen.ops.registry import OPS
from meshgen.ops.rules.rule import picked_kind


def node_flops(node: Node, type_of: TypeOf = lambda value: value.type) -> float:
    """Return the arithmetic operations of one run of a node, excluding its regions.

    `type_of` returns the type of a value; it decides whether the count is global or per device.
    """
    return (OPS[node.op].flops if node.op in OPS else per_result)(node, type_of)


# Operations per comparison, not counting the comparator region: two selects that order the pair, and an increment.
# Counted in the source of the kernel.
_COMPARISON_OVERHEAD = 3


def ranking_operations(node: Node) -> float:
    """Return the operations of ranking in a kernel, which compares each element with all elements of its row.

    Kernels rank for a sort, and for a scatter with many unsorted updates. For a scatter into few rows, each row scans
    all updates instead (`passes/scatter_to_rows.py`). Returns 0 for other nodes.
    """
    if node.op in ("sort", "top_k"):
        operand_type = node.operands[0].type
        row_length = operand_type.sizes[getattr(node.attrs, "dim", operand_type.rank - 1)]
        return float(
            operand_type.size * row_length * (sum(len(region.nodes) for region in node.regions) + _COMPARISON_OVERHEAD)
        )
    if node.op == "scatter" and not node.attrs.indices_are_sorted:
        indices = node.operands[len(node.operands) // 2].type
        count = math.prod(size for dim, size in enumerate(indices.sizes) if dim != node.attrs.index_vector_dim)
        if count <= DEFAULT.fusion.unordered_updates:
            return 0.0
        updates = node.operands[-1].type
        width = max(1, updates.size // count)
        rows = node.operands[0].type.size // width
        is_reduced = reduced_kind(node) and is_row_scan_faster(rows, width, count, updates.nbytes)
        return float(_row_reductions(rows, width, count) if is_reduced else _ranking(count))
    return 0.0


def reduced_kind(node: Node) -> str:
    """Return the reduction kind of a scatter into one tensor (`add`, `maximum`, ...).

    Returns "" if the kind has no neutral element, or for other nodes.
    """
    is_plain = len(node.operands) == 3 and picked_kind(node.operands[0].type.dtype) == "sum"
    return (fold_kind(node.regions[0]) or "") if is_plain else ""


def is_row_scan_faster(rows: int, width: int, count: int, nbytes: int) -> bool:
    """Whether a scatter is faster if each of its `rows` rows scans all updates, instead of ranking the updates.

    There are `count` updates of `width` elements each, `nbytes` in total. The scan reads all of them once per row.
    """
    weights = DEFAULT.propagation
    reducing = _row_reductions(rows, width, count) / weights.other_flops_per_second
    reading = rows * nbytes / weights.product_bytes_per_second
    ranking = _ranking(count) / weights.other_flops_per_second
    return count > DEFAULT.fusion.ranked_updates and max(reducing, reading) < ranking


def _ranking(count: int) -> int:
    """Return the operations of ranking `count` keys by comparing all pairs of keys."""
    return count**2 * (1 + _COMPARISON_OVERHEAD)


def _row_reductions(rows: int, width: int, count: int) -> int:
    """Return the operations of a scan of `count` updates per row.

    Each pair of row and update costs a comparison, and each element of the update costs a select and a combination.
    """
    return rows * count * (1 + 2 * width)


def ranked_operand(node: Node) -> int | None:
    """Return the index of the operand of a scatter that must be sharded to share the ranking between devices.

    Every device ranks an unsharded operand completely. Returns None for other nodes.
    """
    return len(node.operands) // 2 if node.op == "scatter" else None


def graph_flops(graph: Graph) -> float:
    """Return the arithmetic operations of one run of a graph.

    Loops count all iterations, and a branch counts its most expensive region.
    """
    total = 0.0
    for node in graph.nodes:
        if node.op in REPEATED:
            total += sum(graph_flops(region) * runs for region, runs in loop_runs(node, trips(node, graph)))
        elif node.op in WITH_PROGRAMS:
            total += max(map(graph_flops, node.regions))
        else:
            total += node_flops(node)
    return total


def loop_runs(node: Node, count: int) -> list[tuple[Graph, int]]:
    """Return each region of a loop with the number of its runs. The condition runs once more than the `count`
    iterations.
    """
    *conditions, body = node.regions
    return [*((condition, count + 1) for condition in conditions), (body, count)]


def symbolic_trip_count(node: Node, graph: Graph) -> int:
    """Return the trip count of a loop. An unknown trip count is a symbolic size with value 1, for example `trips_12`.

    The number in the name is the source line of the loop.
    """
    if not is_loop(node) or trip_count(node, graph.index.producers) is not None:
        return trips(node, graph)
    return Dim.named(f"trips_{node.loc.line if node.loc else 'loop'}", 1)


def trips(node: Node, graph: Graph) -> int:
    """Return the trip count of a loop. Returns 1 for an unknown trip count, and for a node that is not a loop."""
    if is_scan(node):
        return node.attrs.trips
    return (trip_count(node, graph.index.producers) or 1) if is_loop(node) else 1
