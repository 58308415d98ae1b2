"""Long products in parts: the same numbers, as many parts as fill a device, and products that stay."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.codegen.passes.split_dot import split_dot
from meshgen.ir.graph import Graph
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.bodies import Body, random_args
from tests.codegen.passes.after import after

Dims = tuple[int, ...]


def product(lhs: str, rhs: str, contract: tuple[Dims, Dims], batch: tuple[Dims, Dims] = ((), ())) -> Graph:
    b = Body(lhs, rhs)
    x, w = b.inputs
    return b.done(b.dot(x, w, contract, batch))


def parts(graph: Graph) -> int:
    """How many products there are of a product that was one: the first batch dim; 1 where it stays."""
    (node,) = [node for node in graph.nodes if node.op == "dot_general"]
    return node.result.type.sizes[0] if len(graph.nodes) > 1 else 1


@pytest.mark.parametrize("graph", [
    product("bf16[24,8192]", "bf16[8192,16]", ((1,), (0,))),
    product("f32[8192,24]", "f32[16,8192]", ((0,), (1,))),
    product("f64[3,8,2048]", "f64[3,2048,8]", ((2,), (1,)), ((0,), (0,))),
    product("f32[4,6,2048,3]", "f32[3,2048,6,5]", ((3, 2, 1), (0, 1, 2))),  # of several contracted dims the longest
])  # fmt: skip
def test_the_parts_sum_up_to_the_whole(graph: Graph) -> None:
    found = after(split_dot, graph)
    dtype = graph.outputs[0].type.dtype
    (node,) = [node for node in found.nodes if node.op == "dot_general"]
    assert parts(found) > 1 and node.result.type.dtype == ("f64" if dtype == "f64" else "f32")
    assert found.outputs[0] is graph.outputs[0]
    args = random_args(graph, 2)
    (exact,) = evaluate(graph, args)
    scale = float(np.abs(exact.astype(np.float64)).max())
    unit = {"bf16": 2.0**-7, "f32": 2.0**-16, "f64": 2.0**-44}[dtype]
    np.testing.assert_allclose(evaluate(found, args)[0].astype(np.float64), exact.astype(np.float64), atol=unit * scale)


@pytest.mark.parametrize("graph", [
    product("bf16[8192,8192]", "bf16[8192,8192]", ((1,), (0,))),  # fills the device
    product("bf16[128,500]", "bf16[500,128]", ((1,), (0,))),  # a short sum
    product("bf16[128,8191]", "bf16[8191,128]", ((1,), (0,))),  # prime
    product("i32[24,8192]", "i32[8192,16]", ((1,), (0,))),
    product("bf16[64,128,4096]", "bf16[64,4096,128]", ((2,), (1,)), ((0,), (0,))),  # batches fill the device
])  # fmt: skip
def test_products_that_stay(graph: Graph) -> None:
    assert after(split_dot, graph).nodes == graph.nodes


def test_products_of_one_operand_stay_beside_each_other() -> None:
    b = Body("bf16[128,8192]", "bf16[8192,64]", "bf16[8192,64]")
    x, v, w = b.inputs
    graph = b.done(*(b.dot(x, each, ((1,), (0,))) for each in (v, w)))
    assert after(split_dot, graph).nodes == graph.nodes
