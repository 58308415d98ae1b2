"""Split a column sum in two, so that its first part fuses into a kernel that already reduces rows of the same matrix.

    before   %s = reduce add %g, dims [0, 1]        bf16[4,2048,4096] -> bf16[4096]
    after    %f = convert %g
             %c = reshape %f                        f32[256,32,4096]
             %p = reduce add %c, dims [1]           f32[256,4096]: in the kernel that reduces the rows of %g
             %t = reduce add %p, dims [0]           f32[4096]
             %s = convert %t

Each thread block of the row kernel also sums its run of rows. For example, the gradients of a norm's input and of its
weights then read the rows once. The pass changes only sums that fusion can then merge into such a kernel. Their partial
sums must have fewer bytes than the operand. The shapes alone decide the order of each sum.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

import numpy as np

from meshgen.codegen.emit.rows import power
from meshgen.codegen.fusion.grouping import grouped
from meshgen.codegen.passes.all_graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, Value, is_float
from meshgen.ir.regions import captured
from meshgen.ops.classes import PRODUCTS, REDUCTIONS
from meshgen.ops.row_reductions import Runs, row_length

_LEAST_SUM_DTYPE = "f32"  # Values of narrower types are converted to this type before they are summed.


@module_pass("row-sums-to-runs", "partition")
def row_sums_to_runs(module: Module, context: Compilation) -> Module:
    """Split column sums such that the first of the two sums fuses into a kernel that reduces rows."""
    return on_graphs(module, _with_runs)


def _with_runs(graph: Graph) -> Graph:
    candidates = _candidates(graph)
    if not candidates:
        return graph
    rewritten, firsts = _with_split_sums(graph, candidates)
    rows = {(node.operands[0].type.size, runs.length) for node, runs in candidates.items()}
    owners = grouped(_without_irrelevant_users(rewritten, {*firsts.values(), *_row_reductions(rewritten, rows)})).owner
    fused = {node: candidates[node] for node, first in firsts.items() if first in owners[first.result].space.sums}
    if len(fused) == len(candidates):
        return rewritten
    return _with_split_sums(graph, fused)[0] if fused else graph


def _row_reductions(graph: Graph, rows: AbstractSet[tuple[int, int]]) -> Iterator[Node]:
    """Yield the row reductions whose pair (operand size, row length) is in `rows`."""
    return (n for n in graph.nodes if (length := row_length(n)) and (n.operands[0].type.size, length) in rows)


def _without_irrelevant_users(graph: Graph, queried: AbstractSet[Node]) -> Graph:
    """Return the graph without the nodes that are not needed to compute any GEMM or any node in `queried`.

    The removed nodes do not affect how the nodes in `queried` are fused. In a training step they are half of all nodes:
    the updates of the parameters.
    """
    needed, kept, outputs = set[Value](), list[Node](), dict.fromkeys(graph.outputs)
    for node in reversed(graph.nodes):
        used = (*node.operands, *captured(node)) if node.regions else node.operands
        if node in queried or node.op in PRODUCTS or not needed.isdisjoint(node.results):
            kept.append(node)
            needed.update(used)
        else:
            outputs.update(dict.fromkeys(used))
    defined = {value for node in kept for value in node.results}
    return Graph(graph.name, graph.inputs, kept[::-1], [value for value in outputs if value in defined])


def _candidates(graph: Graph) -> dict[Node, Runs]:
    """Map each column sum that may be split to its runs of rows.

    A candidate sums a matrix with the same size as the operand of some row reduction.
    """
    rows = {(node.operands[0].type.size, row_size) for node in graph.nodes if (row_size := row_length(node))}
    candidates: dict[Node, Runs] = {}
    for node in graph.nodes:
        row_size = _column_count(node)
        if row_size and (node.operands[0].type.size, row_size) in rows and (runs := _runs(node, row_size)):
            candidates[node] = runs
    return candidates


def _column_count(node: Node) -> int:
    """Return the number of columns (the result size) if `node` is a float sum over leading dims, or 0 for other nodes."""
    if node.op not in REDUCTIONS or node.attrs.kind != "add" or not is_float(node.result.type.dtype):
        return 0
    dims = tuple(node.attrs.dims)
    is_first = dims == tuple(range(len(dims))) and 0 < len(dims) < node.operands[0].type.rank
    return node.result.type.size if is_first else 0


def _runs(node: Node, length: int) -> Runs | None:
    """Return the runs of rows for a sum: as many as fill the device, each a multiple of the kernel's tile rows.

    Returns None if the split would move more bytes, or if there would be too few runs.
    """
    limits, value = DEFAULT.fusion, node.operands[0].type
    if value.nbytes < limits.split_bytes or 2 * length > limits.summed_elements:
        return None
    rows, tile_rows, counts = value.size // length, limits.summed_elements // 2 // power(length), list[int]()
    while tile_rows and not counts:
        counts = [c for c in range(limits.least_programs, limits.programs + 1) if rows % (c * tile_rows) == 0]
        tile_rows //= 2
    if not counts:
        return None
    runs = Runs(counts[-1], rows // counts[-1], length)
    # The kernels write the partial sums once and read them once.
    moved = 2 * runs.count * length * DTYPES[_sum_dtype(value.dtype)].itemsize
    return runs if moved < value.nbytes else None


def _sum_dtype(dtype: str) -> str:
    """Return the dtype in which values of `dtype` are summed."""
    return max(dtype, _LEAST_SUM_DTYPE, key=lambda name: DTYPES[name].itemsize)


def _with_split_sums(graph: Graph, runs: Mapping[Node, Runs]) -> tuple[Graph, dict[Node, Node]]:
    """Return the graph with the sums in `runs` split, and a map from each split sum to the node of its partial sums."""
    rewritten = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    firsts: dict[Node, Node] = {}
    for node in graph.nodes:
        if node in runs:
            firsts[node] = _emit_split(rewritten, node, runs[node])
        else:
            rewritten.nodes.append(node)
    return rewritten, firsts


def _emit_split(graph: Graph, node: Node, runs: Runs) -> Node:
    """Append the partial sums and the sum of these, and return the node of the partial sums."""
    value, initial = node.operands
    dtype, sizes = _sum_dtype(value.type.dtype), node.result.type.sizes
    is_narrow = dtype != value.type.dtype

    def converted(unconverted: Value) -> Value:
        kind = TensorType(unconverted.type.sizes, dtype)
        return graph.add("convert", [unconverted], [kind], loc=node.loc).result if is_narrow else unconverted

    run_type = TensorType((runs.count, runs.rows, *sizes), dtype)
    run_rows = graph.add("reshape", [converted(value)], [run_type], loc=node.loc).result
    zero = graph.add("constant", [], [TensorType((), dtype)], {"value": np.zeros((), DTYPES[dtype])}, loc=node.loc)
    partial = TensorType((runs.count, *sizes), dtype)
    first = graph.add("reduce", [run_rows, zero.result], [partial], {**node.attrs, "dims": (1,)}, loc=node.loc)
    last: list[Value] = [Value(TensorType(sizes, dtype))] if is_narrow else node.results
    operands = [first.result, converted(initial)]
    graph.nodes.append(Node("reduce", operands, last, {**node.attrs, "dims": (0,)}, node.loc))
    if is_narrow:
        graph.nodes.append(Node("convert", last, node.results, {}, node.loc))
    return first
