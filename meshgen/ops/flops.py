"""Arithmetic operations of nodes and graphs; moving, choosing and making data counts as none."""

from __future__ import annotations

import math
from collections.abc import Callable

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.loops import trip_count
from meshgen.ir.op_names import ANNOTATIONS, WITH_PROGRAMS
from meshgen.ir.symbols import Dim

TypeOf = Callable[[Value], TensorType]
_MOVES = (
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "fetch_rows", "gather_to", "scatter_from", "broadcast",
    "reduce_to", "send", "recv", "shift", "permute_pairs", "permute", "retile", "update_halo",
    "transfer_send", "transfer_recv",
)  # fmt: skip
_NO_ARITHMETIC = frozenset((
    *WITH_PROGRAMS, *_MOVES, "all_slice", "to_partial", "constant", "iota", "broadcast_in_dim", "transpose", "reshape",
    "reverse", "slice", "concatenate", "pad", "gather", "scatter", "dynamic_slice",
    "dynamic_update_slice", "convert", "bitcast_convert", "select", "process_index", "mask_padding", "kernel", "view", "subview", "join",
    "sort", *ANNOTATIONS,
))  # fmt: skip


def node_flops(node: Node, type_of: TypeOf = lambda value: value.type) -> float:
    """Operations of one run: of dots and convolutions exactly, one per element else. What regions do is left out."""
    if node.op in _NO_ARITHMETIC:
        return 0.0
    if node.op == "dot_general":
        lhs = type_of(node.operands[0]).sizes
        return 2.0 * type_of(node.result).size * math.prod(lhs[d] for d in node.attrs["lhs_contract"])
    if node.op == "convolution":
        kernel = type_of(node.operands[1]).sizes
        features = kernel[node.attrs["kernel_output_feature"]]
        return 2.0 * type_of(node.result).size * math.prod(kernel) / max(features, 1)
    if node.op in ("cholesky", "triangular_solve", "lapack"):
        operand = type_of(node.operands[0])
        return float(operand.size * (operand.sizes[-1] if operand.rank else 1))
    values = node.operands[:1] if node.op in ("reduce", "reduce_region") else node.results
    return float(sum(type_of(value).size for value in values))


def graph_flops(graph: Graph) -> float:
    """Operations of one run of a graph: loops as often as they run, of branches the dearest."""
    total = 0.0
    for node in graph.nodes:
        if node.op == "while":
            total += trips(node, graph) * sum(map(graph_flops, node.regions))
        elif node.op in WITH_PROGRAMS:
            total += max(map(graph_flops, node.regions))
        else:
            total += node_flops(node)
    return total


def named_trips(node: Node, graph: Graph) -> int:
    """Runs of a node's regions; 1 by the name of its line, `trips_12`, where that cannot be read off."""
    if node.op != "while" or trip_count(node, graph.producers()) is not None:
        return trips(node, graph)
    return Dim.named(f"trips_{node.loc.line if node.loc else 'loop'}", 1)


def trips(node: Node, graph: Graph) -> int:
    """Runs of a node's regions; 1 where that cannot be read off."""
    return (trip_count(node, graph.producers()) or 1) if node.op == "while" else 1
