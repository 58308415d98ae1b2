"""Replace an inner product of flattened tensors by a sum over their original dims, which can be sharded freely.

    before   %1 = reshape %x     %2 = reshape %y     %3 = dot_general %1, %2     f32[8,4] -> f32[32] -> f32[]
    after    %1 = multiply %x, %y                    %2 = reduce add %1          f32[8,4] -> f32[]

`jnp.vdot` flattens both operands, and JAX's conjugate gradients call it in each iteration. A flattened dim can be split
only over the mesh axes of its major dim. A sum can also be split over the thread blocks of a kernel along every dim.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value, is_float
from meshgen.ir.regions import needed_nodes
from meshgen.sharding.rewrites.bodies import in_bodies
from meshgen.sharding.rewrites.graph_passes import graph_pass


@graph_pass("inner-product-unflatten", applies="if cheaper", in_bodies=False)
def inner_product_unflatten(graph: Graph) -> Graph | None:
    """Return the rewritten graph, or None if it has no inner product of flattened tensors."""
    return _unflattened(graph, {})


def _unflattened(graph: Graph, outer: Mapping[Value, Node]) -> Graph | None:
    producers = {**outer, **graph.index.producers}
    inner = in_bodies(graph, lambda region: _unflattened(region, producers))
    rewritten = Graph(graph.name, graph.inputs, [], graph.outputs)
    for node in (inner or graph).nodes:
        if sources := _flattened_operands(node, producers):
            _sum_of_products(Builder(rewritten, node.loc), sources, node)
        else:
            rewritten.nodes.append(node)
    if len(rewritten.nodes) == len(graph.nodes):
        return inner
    return replace(rewritten, nodes=needed_nodes(rewritten.nodes, graph.outputs, lambda node: node.op != "reshape"))


def _flattened_operands(node: Node, producers: Mapping[Value, Node]) -> list[Value]:
    """Return the two tensors of equal shape that an inner product flattens, or an empty list for other nodes."""
    if node.op != "dot_general" or node.result.type.rank or node.option is not None:
        return []
    reshapes = [producers.get(value) for value in node.operands]
    if any(reshape is None or reshape.op != "reshape" for reshape in reshapes):
        return []
    sources = [reshape.operands[0] for reshape in reshapes if reshape]
    is_flat = all(value.type.rank == 1 for value in node.operands)
    return sources if is_flat and sources[0].type.sizes == sources[1].type.sizes else []


def _sum_of_products(builder: Builder, sources: list[Value], dot: Node) -> None:
    """Append the sum, with the results of the dot. Narrow floats are multiplied and added in f32, as in the dot."""
    dtype = dot.result.type.dtype
    wide = "f32" if is_float(dtype) and dtype != "f64" else dtype
    product = builder.elementwise("multiply", *(builder.convert(value, wide) for value in sources))
    zero = builder.splat(0, TensorType((), wide))
    dims = tuple(range(product.type.rank))
    builder.convert(builder.emit("reduce", [product, zero], zero.type, dims=dims, kind="add"), dtype)
    builder.make(dot.results)
