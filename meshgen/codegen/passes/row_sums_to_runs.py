"""Sums over rows that a kernel reduces anyway are taken by its programs: of a run of rows each, and then of the runs.

    before   %s = reduce add %g, dims [0, 1]                       bf16[4,2048,4096] -> bf16[4096]
    after    %f = convert %g
             %c = reshape %f                                       f32[256,32,4096]
             %p = reduce add %c, dims [1]                          f32[256,4096]: by the kernel that reduces rows of the size of %g
             %t = reduce add %p, dims [0]                          f32[4096]
             %s = convert %t

So the gradients of a norm's input and of its weights read the rows once. Only sums that fusion then finds a place for in such
a kernel are changed, and only where the sums of the runs are fewer bytes than what they are of. The order of each sum is
fixed by the shapes alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet

import numpy as np

from meshgen.codegen.emit.rows import power
from meshgen.codegen.fusion.grouped import grouped
from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, Value, is_float
from meshgen.ir.regions import captured
from meshgen.ops.classes import PRODUCTS, REDUCTIONS
from meshgen.ops.rows import Runs, row_length

_WIDE = "f32"  # sums of narrower numbers are of these, as in registers


@module_pass("row-sums-to-runs", "partition")
def row_sums_to_runs(module: Module, context: Compilation) -> Module:
    """A local program with such sums in two."""
    return on_graphs(module, _with_runs)


def _with_runs(graph: Graph) -> Graph:
    found = _candidates(graph)
    if not found:
        return graph
    after, firsts = _with_split_sums(graph, found)
    rows = {(node.operands[0].type.size, runs.length) for node, runs in found.items()}
    owner = grouped(_without_end(after, {*firsts.values(), *_reducing(after, rows)})).owner
    taken = {node: found[node] for node, first in firsts.items() if first in owner[first.result].space.sums}
    if len(taken) == len(found):
        return after
    return _with_split_sums(graph, taken)[0] if taken else graph


def _reducing(graph: Graph, rows: AbstractSet[tuple[int, int]]) -> Iterator[Node]:
    """Reductions of rows of these numbers of elements, of all and of a row."""
    return (n for n in graph.nodes if (length := row_length(n)) and (n.operands[0].type.size, length) in rows)


def _without_end(graph: Graph, asked: AbstractSet[Node]) -> Graph:
    """The graph without what neither products nor the nodes that are asked about need: it has no part in how these are grouped.

    That is half of a training step: what is done to each gradient.
    """
    needed, kept, outputs = set[Value](), list[Node](), dict.fromkeys(graph.outputs)
    for node in reversed(graph.nodes):
        used = (*node.operands, *captured(node)) if node.regions else node.operands
        if node in asked or node.op in PRODUCTS or not needed.isdisjoint(node.results):
            kept.append(node)
            needed.update(used)
        else:
            outputs.update(dict.fromkeys(used))
    made = {value for node in kept for value in node.results}
    return Graph(graph.name, graph.inputs, kept[::-1], [value for value in outputs if value in made])


def _candidates(graph: Graph) -> dict[Node, Runs]:
    """Sums over all rows of matrices of a size of which others reduce the rows, with the runs to take."""
    rows = {(node.operands[0].type.size, length) for node in graph.nodes if (length := row_length(node))}
    found: dict[Node, Runs] = {}
    for node in graph.nodes:
        length = _columns(node)
        if length and (node.operands[0].type.size, length) in rows and (runs := _runs(node, length)):
            found[node] = runs
    return found


def _columns(node: Node) -> int:
    """Elements of the result of a sum over the outer dims; 0 of other nodes."""
    if node.op not in REDUCTIONS or node.attrs.kind != "add" or not is_float(node.result.type.dtype):
        return 0
    dims = tuple(node.attrs.dims)
    is_first = dims == tuple(range(len(dims))) and 0 < len(dims) < node.operands[0].type.rank
    return node.result.type.size if is_first else 0


def _runs(node: Node, length: int) -> Runs | None:
    """As many runs as fill the device, of whole tiles of rows; None where that moves more bytes, or is of too few."""
    limits, value = DEFAULT.fusion, node.operands[0].type
    if value.nbytes < limits.split_bytes or 2 * length > limits.summed_elements:
        return None
    rows, together, counts = value.size // length, limits.summed_elements // 2 // power(length), list[int]()
    while together and not counts:
        counts = [c for c in range(limits.least_programs, limits.programs + 1) if rows % (c * together) == 0]
        together //= 2
    if not counts:
        return None
    runs = Runs(counts[-1], rows // counts[-1], length)
    # The sums of the runs are written and read.
    moved = 2 * runs.count * length * DTYPES[_sum_dtype(value.dtype)].itemsize
    return runs if moved < value.nbytes else None


def _sum_dtype(dtype: str) -> str:
    """The type of the sums."""
    return max(dtype, _WIDE, key=lambda each: DTYPES[each].itemsize)


def _with_split_sums(graph: Graph, runs: Mapping[Node, Runs]) -> tuple[Graph, dict[Node, Node]]:
    """The graph with sums in two, and the first of each."""
    after = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    firsts: dict[Node, Node] = {}
    for node in graph.nodes:
        if node in runs:
            firsts[node] = _in_two(after, node, runs[node])
        else:
            after.nodes.append(node)
    return after, firsts


def _in_two(graph: Graph, node: Node, runs: Runs) -> Node:
    """Append the sums of the runs and their sum; the former."""
    value, initial = node.operands
    dtype, sizes = _sum_dtype(value.type.dtype), node.result.type.sizes
    is_narrow = dtype != value.type.dtype

    def converted(made: Value) -> Value:
        kind = TensorType(made.type.sizes, dtype)
        return graph.add("convert", [made], [kind], loc=node.loc).result if is_narrow else made

    cut = TensorType((runs.count, runs.rows, *sizes), dtype)
    pieces = graph.add("reshape", [converted(value)], [cut], loc=node.loc).result
    zero = graph.add("constant", [], [TensorType((), dtype)], {"value": np.zeros((), DTYPES[dtype])}, loc=node.loc)
    partial = TensorType((runs.count, *sizes), dtype)
    first = graph.add("reduce", [pieces, zero.result], [partial], {**node.attrs, "dims": (1,)}, loc=node.loc)
    last: list[Value] = [Value(TensorType(sizes, dtype))] if is_narrow else node.results
    operands = [first.result, converted(initial)]
    graph.nodes.append(Node("reduce", operands, last, {**node.attrs, "dims": (0,)}, node.loc))
    if is_narrow:
        graph.nodes.append(Node("convert", last, node.results, {}, node.loc))
    return first
