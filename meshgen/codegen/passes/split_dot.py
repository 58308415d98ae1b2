"""A product that sums much for few results is split in two, so that it fills the device: products of parts of k, and their sum (split-K).

    before   %2 = dot_general %x, %w        bf16[128, 16384], bf16[16384, 128] -> bf16[128, 128]
    after    %1 = dot_general %x', %w' {batch = 1 with 0}      bf16[128, 32, 512], bf16[32, 512, 128] -> f32[32, 128, 128]
             %2 = convert (reduce add %1 over 0)

The parts are summed in the accumulator's type and in a fixed order; what follows the product follows their sum. The products of an attention are
split with it (`split_attention.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from meshgen.codegen.passes.graphs import on_graphs
from meshgen.codegen.passes.split_attention import closed_attentions
from meshgen.codegen.roofline.kernel_time import device_of, memory_seconds
from meshgen.compilation import Compilation, module_pass
from meshgen.cost_model.kernels import Device
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import DTYPES, Graph, Module, Node, TensorType, is_float
from meshgen.kernels.matmul_time import Product, product_seconds
from meshgen.ops.dot_dims import DotDims
from meshgen.ops.precision import multiplied_as, sum_type


@module_pass("split-dot", "partition")
def split_dot(module: Module, context: Compilation) -> Module:
    """A local program with its long products split."""
    return on_graphs(module, _with_split_dots)


def _with_split_dots(graph: Graph) -> Graph:
    if not any(_may_split(node) for node in graph.nodes):
        return graph
    found = Graph(graph.name, list(graph.inputs), [], list(graph.outputs))
    inside = {dot for each in closed_attentions(graph) for dot in (each.scores, each.product)} | _siblings(graph)
    for node in graph.nodes:
        parts = _parts(node) if _may_split(node) and node not in inside else 1
        if parts == 1:
            found.nodes.append(node)
        else:
            _emit_split(found, node, parts)
    return found


def _siblings(graph: Graph) -> set[Node]:
    """Products of equal types that have their left operand in common: they fill the device together, in one kernel."""
    found: dict[object, list[Node]] = {}
    for node in graph.nodes:
        if node.op == "dot_general":
            key = node.operands[0], node.operands[1].type, node.attrs
            found.setdefault(key, []).append(node)
    return {node for dots in found.values() if len(dots) > 1 for node in dots}


def _may_split(node: Node) -> bool:
    """Whether its elements are added in registers, and k is long."""
    if node.op != "dot_general" or not is_float(node.result.type.dtype) or not node.result.type.size:
        return False
    sizes = node.operands[0].type.sizes
    return any(sizes[d] >= 2 * DEFAULT.fusion.split_product_k for d in node.attrs.lhs_contract)


def _parts(node: Node) -> int:
    """The least number of parts that is predicted to take the least time: their sums are in memory."""
    size = node.operands[0].type.sizes[_longest(node)]
    device = device_of("cpu")  # plans are the same for all targets
    counts = [parts for parts in _divisors(size) if parts == 1 or size // parts >= DEFAULT.fusion.split_product_k]
    times = {parts: _seconds(node, parts, device) for parts in counts}
    best = next(parts for parts in counts if times[parts] <= min(times.values()) * DEFAULT.fusion.same_product)
    # What follows the product may need a launch more, where it was in the product's kernel.
    return best if times[1] > times[best] + device.launch_seconds else 1


def _divisors(size: int) -> Iterator[int]:
    return (parts for parts in range(1, min(size, DEFAULT.fusion.split_product_parts) + 1) if size % parts == 0)


def _longest(node: Node) -> int:
    """The contracted dim of the left operand that is split."""
    sizes = node.operands[0].type.sizes
    return max(node.attrs.lhs_contract, key=lambda d: (sizes[d], -d))


def _seconds(node: Node, parts: int, device: Device) -> float:
    lhs, rhs = (value.type for value in node.operands)
    batch, m, n, k = DotDims.of(node).extents(lhs, rhs)
    product = product_seconds(Product(batch * parts, m, n, k // parts, multiplied_as(node)), device)
    read = lhs.nbytes + rhs.nbytes
    if parts == 1:
        return max(product, memory_seconds(read + node.result.type.nbytes, device))
    partial = parts * node.result.type.size * DTYPES[sum_type(node.result.type.dtype)].itemsize
    summed = device.launch_seconds + memory_seconds(partial + node.result.type.nbytes, device)
    return max(product, memory_seconds(read + partial, device)) + summed


def _emit_split(graph: Graph, node: Node, parts: int) -> None:
    result, wide = node.result.type, sum_type(node.result.type.dtype)
    place = node.attrs.lhs_contract.index(_longest(node))
    operands, dims = list(node.operands), DotDims.of(node)
    for number, value in enumerate(operands):
        sizes, dim = value.type.sizes, dims.contract[number][place]
        cut = value.type.with_shape((*sizes[:dim], parts, sizes[dim] // parts, *sizes[dim + 1 :]))
        operands[number] = graph.add("reshape", [value], [cut], {}, loc=node.loc).result
    added = [dims.contract[number][place] for number in (0, 1)]
    contract, batch = (
        [tuple(d + (d >= added[side]) for d in dims_of[side]) for side in (0, 1)]
        for dims_of in (dims.contract, dims.batch)
    )
    attrs = replace(node.attrs, lhs_contract=contract[0], rhs_contract=contract[1], lhs_batch=(added[0], *batch[0]),
                    rhs_batch=(added[1], *batch[1]))  # fmt: skip
    partial = graph.add("dot_general", operands, [TensorType((parts, *result.sizes), wide)], attrs, loc=node.loc).result
    zero = graph.add("constant", [], [TensorType((), wide)], {"value": np.zeros((), DTYPES[wide])}, loc=node.loc).result
    reduction = {"dims": (0,), "kind": "add"}
    if wide == result.dtype:
        graph.nodes.append(Node("reduce", [partial, zero], node.results, reduction, node.loc))
        return
    total = graph.add("reduce", [partial, zero], [TensorType(result.sizes, wide)], reduction, loc=node.loc).result
    graph.nodes.append(Node("convert", [total], node.results, {}, node.loc))
