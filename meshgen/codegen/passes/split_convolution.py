"""A convolution that sums much for few results is split in two, so that it fills the device: products of parts of the features, and their sum.

    before   %2 = convolution %x, %g        f32[C, H, W, N], f32[N, H, W, O] -> f32[C, 3, 3, O], sums over N, H and W
    after    %1 = convolution %x, %g' {feature_group_count = P}      f32[N / P, H, W, P * O] -> f32[C, 3, 3, P * O]
             %2 = reduce add (reshape %1) over P

That is the gradient of a kernel, where N is the batch: a group of features is a part of it. The parts are summed in f32, in a fixed order.
"""

from __future__ import annotations

import math

import numpy as np

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.attributes.contraction import Convolution
from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, Value, is_float
from meshgen.ops.dot_dims import product_extents
from meshgen.ops.precision import sum_type


@module_pass("split-convolution", "partition")
def split_convolution(module: Module, context: Compilation) -> Module:
    """A local program with its long convolutions split."""
    return on_graphs(module, _with_split_convolutions)


def _with_split_convolutions(graph: Graph) -> Graph:
    found = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    for node in graph.nodes:
        parts = _parts(node) if isinstance(node.attrs, Convolution) else 1
        if parts == 1:
            found.nodes.append(node)
        else:
            _emit_split(found, node, parts)
    return found


def _parts(node: Node) -> int:
    """How many parts fill the device, as far as they divide the features and move no more bytes than the operands have."""
    batch, m, n, _ = product_extents(node)
    limits = DEFAULT.fusion
    tiles = -(-m // limits.split_columns) * -(-n // limits.split_columns)
    features = node.operands[1].type.sizes[node.attrs.kernel_input_feature]
    read = sum(value.type.nbytes for value in node.operands)
    partial = node.result.type.size * DTYPES[sum_type(node.result.type.dtype)].itemsize
    if batch > 1 or not is_float(node.result.type.dtype) or read < limits.split_bytes:
        return 1
    most = min(limits.programs // max(1, tiles), read // max(1, 2 * partial), features)
    return max((parts for parts in range(1, most + 1) if features % parts == 0), default=1)


def _emit_split(graph: Graph, node: Node, parts: int) -> None:
    attrs, dtype = node.attrs, node.result.type.dtype
    wide, feature = sum_type(dtype), attrs.output_feature
    sizes = node.result.type.sizes
    whole = TensorType(tuple(parts * s if d == feature else s for d, s in enumerate(sizes)), wide)
    operands = [node.operands[0], _grouped_kernel(graph, node, parts)]
    given = {**attrs, "feature_group_count": parts}
    partial = graph.add("convolution", operands, [whole], given, loc=node.loc).result
    cut = TensorType((*sizes[:feature], parts, *sizes[feature:]), wide)
    pieces = graph.add("reshape", [partial], [cut], {}, loc=node.loc).result
    zero = np.zeros((), DTYPES[wide])
    start = graph.add("constant", [], [TensorType((), wide)], {"value": zero}, loc=node.loc).result
    attributes = {"dims": (feature,), "kind": "add"}
    if wide == dtype:
        graph.nodes.append(Node("reduce", [pieces, start], node.results, attributes, node.loc))
        return
    total = graph.add("reduce", [pieces, start], [TensorType(sizes, wide)], attributes, loc=node.loc).result
    graph.nodes.append(Node("convert", [total], node.results, {}, node.loc))


def _grouped_kernel(graph: Graph, node: Node, parts: int) -> Value:
    """The kernel with fewer input features, and `parts` times as many output features, those of a part beside each other."""
    kernel, feature, output = node.operands[1], node.attrs.kernel_input_feature, node.attrs.kernel_output_feature
    sizes, dtype = kernel.type.sizes, kernel.type.dtype
    cut = TensorType((*sizes[:feature], parts, sizes[feature] // parts, *sizes[feature + 1 :]), dtype)
    value = graph.add("reshape", [kernel], [cut], {}, loc=node.loc).result
    rest = [d for d in range(len(cut.sizes)) if d != feature]
    place = rest.index(output + (output > feature))
    perm = (*rest[:place], feature, *rest[place:])
    moved = TensorType(tuple(cut.sizes[d] for d in perm), dtype)
    value = graph.add("transpose", [value], [moved], {"perm": perm}, loc=node.loc).result
    merged = (*moved.sizes[:place], math.prod(moved.sizes[place : place + 2]), *moved.sizes[place + 2 :])
    return graph.add("reshape", [value], [TensorType(merged, dtype)], {}, loc=node.loc).result
