"""An inner product of flattened tensors becomes a sum over their original dims, so that splitting any of them needs no gather.

    before   %1 = reshape %x     %2 = reshape %y     %3 = dot_general %1, %2     f32[8,4] -> f32[32] -> f32[]
    after    %1 = multiply %x, %y                    %2 = reduce add %1          f32[8,4] -> f32[]

`jnp.vdot` flattens both operands, and JAX's conjugate gradients call it in each iteration. A dim made of several can be split by
the axes of the major one only. A sum is also split over the programs of a kernel along every dim.
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
    """Returns None if the graph has no inner product of flattened tensors."""
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
    """Return the tensors that an inner product flattens, both of one shape; empty if it is none."""
    if node.op != "dot_general" or node.result.type.rank or node.option is not None:
        return []
    makers = [producers.get(value) for value in node.operands]
    if any(maker is None or maker.op != "reshape" for maker in makers):
        return []
    sources = [maker.operands[0] for maker in makers if maker]
    is_flat = all(value.type.rank == 1 for value in node.operands)
    return sources if is_flat and sources[0].type.sizes == sources[1].type.sizes else []


def _sum_of_products(builder: Builder, sources: list[Value], dot: Node) -> None:
    """Append the sum with the dot's results. Narrow floats are multiplied and added in f32, as the dot does it."""
    dtype = dot.result.type.dtype
    wide = "f32" if is_float(dtype) and dtype != "f64" else dtype
    product = builder.elementwise("multiply", *(builder.convert(value, wide) for value in sources))
    zero = builder.splat(0, TensorType((), wide))
    dims = tuple(range(product.type.rank))
    builder.convert(builder.emit("reduce", [product, zero], zero.type, dims=dims, kind="add"), dtype)
    builder.make(dot.results)
