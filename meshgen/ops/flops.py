"""Arithmetic operations of nodes and graphs; moving and making data counts as none."""

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
    """Operations of one run: of dots and convolutions exactly, one per element else. What regions do is left out."""
    return (OPS[node.op].flops if node.op in OPS else per_result)(node, type_of)


_BESIDE = 3  # operations of a comparison beside its region: two choices by which element is first, and a count


def ranking_operations(node: Node) -> float:
    """Operations by which a kernel ranks elements, each against all of its row: in a sort, and before a scatter of many updates in no order.

    Updates of few rows are not ranked, but looked at for each row (`passes/scatter_to_rows.py`).
    """
    if node.op in ("sort", "top_k"):
        kind = node.operands[0].type
        row = kind.sizes[getattr(node.attrs, "dim", kind.rank - 1)]
        return float(kind.size * row * (sum(len(region.nodes) for region in node.regions) + _BESIDE))
    if node.op == "scatter" and not node.attrs.indices_are_sorted:
        indices = node.operands[len(node.operands) // 2].type
        count = math.prod(size for dim, size in enumerate(indices.sizes) if dim != node.attrs.index_vector_dim)
        if count <= DEFAULT.fusion.unordered_updates:
            return 0.0
        updates = node.operands[-1].type
        width = max(1, updates.size // count)
        rows = node.operands[0].type.size // width
        is_reduced = reduced_kind(node) and rows_reduce_sooner(rows, width, count, updates.nbytes)
        return float(_row_reductions(rows, width, count) if is_reduced else _ranking(count))
    return 0.0


def reduced_kind(node: Node) -> str:
    """The reduction that a scatter of one tensor combines with, where it has a neutral element; empty for others."""
    plain = len(node.operands) == 3 and picked_kind(node.operands[0].type.dtype) == "sum"
    return (fold_kind(node.regions[0]) or "") if plain else ""


def rows_reduce_sooner(rows: int, width: int, count: int, nbytes: int) -> bool:
    """Whether it takes less time to reduce for each of `rows` the updates that are its own than to rank the updates.

    There are `count` of them, of `width` elements each and `nbytes` together, which are read for each row.
    """
    weights = DEFAULT.propagation
    reducing = _row_reductions(rows, width, count) / weights.other_flops_per_second
    reading = rows * nbytes / weights.product_bytes_per_second
    ranking = _ranking(count) / weights.other_flops_per_second
    return count > DEFAULT.fusion.ranked_updates and max(reducing, reading) < ranking


def _ranking(count: int) -> int:
    """Operations of ranking so many keys, each against all."""
    return count**2 * (1 + _BESIDE)


def _row_reductions(rows: int, width: int, count: int) -> int:
    """Operations of a comparison for each row and update, and of a choice and a combination of each element."""
    return rows * count * (1 + 2 * width)


def ranked_operand(node: Node) -> int | None:
    """The number of the operand that a device ranks as a whole if it has a part of the work, unless that splits it; None where there is none."""
    return len(node.operands) // 2 if node.op == "scatter" else None


def graph_flops(graph: Graph) -> float:
    """Return the operations of one run of a graph: loops as often as they run (`loop_runs`), of branches the one with most."""
    total = 0.0
    for node in graph.nodes:
        if node.op in REPEATED:
            total += sum(graph_flops(region) * times for region, times in loop_runs(node, trips(node, graph)))
        elif node.op in WITH_PROGRAMS:
            total += max(map(graph_flops, node.regions))
        else:
            total += node_flops(node)
    return total


def loop_runs(node: Node, count: int) -> list[tuple[Graph, int]]:
    """Return the regions of a loop of `count` trips, each with how often it runs: a condition once more than the body."""
    *conditions, body = node.regions
    return [*((condition, count + 1) for condition in conditions), (body, count)]


def named_trips(node: Node, graph: Graph) -> int:
    """Runs of a node's regions; 1 by the name of its line, `trips_12`, where that cannot be read off."""
    if not is_loop(node) or trip_count(node, graph.index.producers) is not None:
        return trips(node, graph)
    return Dim.named(f"trips_{node.loc.line if node.loc else 'loop'}", 1)


def trips(node: Node, graph: Graph) -> int:
    """Runs of a node's regions; 1 where that cannot be read off."""
    if is_scan(node):
        return node.attrs.trips
    return (trip_count(node, graph.index.producers) or 1) if is_loop(node) else 1
