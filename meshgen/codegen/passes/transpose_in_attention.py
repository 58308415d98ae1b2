"""Results of an attention are written as their readers take them: by positions, with the heads beside each other.

    before   %1 = dot_general %v, %p                              bf16[8,12,64,1024], heads before positions
             %2 = transpose %1, dims = [0, 3, 1, 2]               an index map of every reader
    after    %2 = transpose %1, dims = [0, 3, 1, 2] {in memory}   bf16[8,1024,12,64], which the kernel of the dot writes

Rows of a position are then contiguous for sums, concatenations and products of all heads, each of which would have read across them. What else
reads `%1` reads it through `%2`. The same is done for the products of an attention's gradient. Left as they are: results that the kernel works on before it writes
anything, and those that something else (a message) has to have in their own order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from meshgen.codegen.fusion.attention_indices import attentions_in
from meshgen.codegen.fusion.weighted_sum import weighted_sum
from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.ir.regions import used_by
from meshgen.ops.classes import MATRIX_PRODUCTS, POINTWISE
from meshgen.ops.dot_dims import DotDims

_THROUGH = POINTWISE | MATRIX_PRODUCTS | {"transpose"}  # kernels with these read through transposes


@module_pass("transpose-in-attention", "partition")
def transpose_in_attention(module: Module, context: Compilation) -> Module:
    """A local program with such transposes in memory; results keep their identity."""
    return on_graphs(module, _with_results_transposed)


def _with_results_transposed(graph: Graph) -> Graph:
    found = _of_attentions(graph)
    if not found:
        return graph
    nodes: list[Node] = []
    now: dict[Value, Value] = {}
    for node in graph.nodes:
        for value in [v for v in node.operands if v in found and v not in now]:  # after all products of the kernel
            transpose = found[value]
            back = _back(transpose, value)
            nodes += [replace(transpose, notes=replace(transpose.notes, in_memory=True)), back]
            now[value] = back.result
        if not any(found.get(v) is node for v in node.operands):
            is_same = now.keys().isdisjoint(node.operands)
            nodes.append(node if is_same else replace(node, operands=[now.get(v, v) for v in node.operands]))
    return Graph(graph.name, list(graph.inputs), nodes, list(graph.outputs))


def _back(transpose: Node, like: Value) -> Node:
    """The value in its own order, read from what is transposed."""
    perm = tuple(int(d) for d in np.argsort(transpose.attrs.perm))
    return Node("transpose", list(transpose.results), [Value(like.type, loc=like.loc)], {"perm": perm}, transpose.loc)


def _of_attentions(graph: Graph) -> dict[Value, Node]:
    """Results of attentions and of their gradients, in the type that they are read in, and the first transpose of each that merges heads."""
    found = {value: (dot, transpose) for value, (dot, transpose) in _transposes(graph).items() if transpose is not None}
    if not found:
        return {}
    producer, users = graph.index.producers, graph.index.uses
    found = {value: pair for value, pair in found.items() if not _goes_on(pair[1].result, users)}
    dots = {dot for dot, _ in found.values()}
    last = {attention.product for attention in attentions_in(graph).values()}
    last |= {dot for dot in dots - last if weighted_sum(dot, producer.get) is not None}
    return {value: transpose for value, (dot, transpose) in found.items() if dot in last}


def _transposes(graph: Graph) -> dict[Value, tuple[Node, Node | None]]:
    """Results of dots, converted or not, with the dot and the first transpose that merges heads; nothing has to have them as they are."""
    found: dict[Value, tuple[Node, Node | None]] = {}
    for node in graph.nodes:
        if node.op not in _THROUGH:
            for value in used_by(node):
                found.pop(value, None)
            continue
        if node.op == "dot_general":
            found[node.result] = node, None
        dot, transpose = found.get(node.operands[0], (None, None))
        if dot is not None and node.op == "convert":
            found[node.result] = dot, None
        elif dot is not None and node.op == "transpose" and transpose is None and _merges_heads(node, dot):
            found[node.operands[0]] = dot, node
    for value in graph.outputs:
        found.pop(value, None)
    return found


def _goes_on(value: Value, users: Mapping[Value, Sequence[tuple[Node, int]]]) -> bool:
    """Whether element-wise ops take the value, and nothing else does, to one that is as small: their result is what the kernel writes."""
    most = value.type.nbytes
    while len(readers := {user for user, _ in users.get(value, ())}) == 1:
        (node,) = readers
        if node.op not in POINTWISE:
            return False
        value = node.result
        if value.type.nbytes <= most:
            return True
    return False


def _merges_heads(transpose: Node, dot: Node) -> bool:
    """Whether another dim than those of the batch comes before the last of these, and another after it."""
    batch, perm = len(DotDims.of(dot).batch[0]), list(transpose.attrs.perm)
    last = max((place for place, d in enumerate(perm) if d < batch), default=0)
    return last + 1 < len(perm) and any(d >= batch for d in perm[:last])
