"""A reduction to few elements is split in two, so that it fills the device: first to a few per result, then to one.

`reduce x[R, C] over R` becomes `reduce (reshape x[P, R/P, C]) over R/P`, then over P. The order of the sum is
fixed by the shapes alone: no atomics, the same bits on every run. The reductions of an attention stay whole, or are split with it
(`split_attention.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.codegen.passes.split_attention import Splitter, closed_attentions, split_of
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.ops.classes import REDUCTIONS
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.rows import runs_of_rows


@module_pass("split-reduction", "partition")
def split_reduction(module: Module, context: Compilation) -> Module:
    """A local program with its big reductions split."""
    return on_graphs(module, _with_split_reductions)


def _with_split_reductions(graph: Graph) -> Graph:
    found = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    attentions = closed_attentions(graph)
    inside = {n for attention in attentions for n in (attention.maximum, attention.total)}
    splits = {a.product: split for a in attentions if (split := split_of(a, graph)) is not None}
    made = graph.index.producers
    left_out = {n for split in splits.values() for n in split.replaced()}
    for node in graph.nodes:
        is_split = node.op == "reduce_region" or (node.op in REDUCTIONS and node not in inside)
        parts = _split_factor(node) if is_split and not _is_of_runs(node, made) else None
        if node in splits:
            Splitter(found, splits[node]).write()
        elif parts is not None and node.op in REDUCTIONS:
            _emit_split(found, node, *parts)
        elif parts is not None:
            _emit_split_region(found, node, *parts)
        elif node not in left_out:
            found.nodes.append(node)
    return found


def _is_of_runs(node: Node, made: Mapping[Value, Node]) -> bool:
    """Whether a reduction adds up sums of runs of rows (`row_sums_to_runs.py`): it is in two already."""
    maker = made.get(node.operands[0])
    runs = runs_of_rows(maker) if maker else None
    return runs is not None and tuple(node.attrs.dims) == (0,) and node.operands[0].type.sizes[0] == runs.count


def _split_factor(node: Node) -> tuple[int, int] | None:
    """(dim, number of parts) to split a reduce by, if it has too few programs."""
    shape, dims = node.operands[0].type.sizes, node.attrs.dims
    kept, limits = node.results[0].type.size, DEFAULT.fusion
    reduced = math.prod(shape[d] for d in dims)
    programs = kept if len(shape) - 1 in dims else -(-kept // limits.split_columns)
    nbytes = node.operands[0].type.nbytes
    most = limits.programs if nbytes >= limits.split_big_bytes else limits.programs // 4
    if nbytes < limits.split_bytes or programs >= most:
        return None
    wanted = min(limits.programs // programs, reduced // limits.split_least)
    dim = max(dims, key=lambda d: (shape[d], -d))
    fitting = [p for p in range(2, min(wanted, shape[dim]) + 1) if shape[dim] % p == 0]
    return (dim, fitting[-1]) if fitting else None


def _emit_split(graph: Graph, node: Node, dim: int, parts: int) -> None:
    value, init = node.operands
    shape, kind = value.type.sizes, node.attrs.kind
    dtype = value.type.dtype
    cut = TensorType((*shape[:dim], parts, shape[dim] // parts, *shape[dim + 1 :]), dtype)
    pieces = graph.add("reshape", [value], [cut], {}, loc=node.loc).result
    number = np.array(neutral(kind, dtype))
    start = graph.add("constant", [], [TensorType((), dtype)], {"value": number}, loc=node.loc).result
    dims = tuple(d + (d >= dim) for d in node.attrs.dims)
    partial = TensorType(tuple(s for d, s in enumerate(cut.sizes) if d not in dims), dtype)
    first = graph.add("reduce", [pieces, start], [partial], {**node.attrs, "dims": dims}, loc=node.loc).result
    place = sum(1 for d in range(dim) if d not in dims)
    last: list[Value] = node.results
    graph.nodes.append(Node("reduce", [first, init], last, {**node.attrs, "dims": (place,)}, node.loc))


def _emit_split_region(graph: Graph, node: Node, dim: int, parts: int) -> None:
    """Initial values may be combined any number of times, as StableHLO has it: each part and the whole have them."""
    count = len(node.operands) // 2
    inits, dims = node.operands[count:], tuple(d + (d >= dim) for d in node.attrs.dims)
    pieces, kinds = list[Value](), list[TensorType]()
    for value in node.operands[:count]:
        sizes = value.type.sizes
        cut = value.type.with_shape((*sizes[:dim], parts, sizes[dim] // parts, *sizes[dim + 1 :]))
        pieces.append(graph.add("reshape", [value], [cut], {}, loc=node.loc).result)
        kinds.append(value.type.with_shape([s for d, s in enumerate(cut.sizes) if d not in dims]))
    first = [Value(kind) for kind in kinds]
    graph.nodes.append(Node(node.op, [*pieces, *inits], first, {"dims": dims}, node.loc, regions=node.regions))
    place = sum(1 for d in range(dim) if d not in dims)
    graph.nodes.append(
        Node(node.op, [*first, *inits], node.results, {"dims": (place,)}, node.loc, regions=node.regions)
    )
