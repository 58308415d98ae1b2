"""Tests of the `copy-operands` pass: it copies GEMM operands for tensor cores and TMA if that is profitable."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen import api
from meshgen.codegen.passes.copy_operands import copy_operands
from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.bodies import Body, random_args
from tests.codegen.passes.after import after


def product(lhs: str, rhs: str, contract: tuple[int, int], dtype: str = "f32") -> Graph:
    b = Body(lhs, rhs)
    x, w = b.inputs
    return b.done(b.dot(x, w, ((contract[0],), (contract[1],)), dtype=dtype))


def copies(graph: Graph) -> list[str]:
    return [node.op for node in graph.nodes if node.notes.in_memory]


@pytest.mark.parametrize("graph, copy_ops", [
    (product("i8[2048,1024]", "i8[1024,2048]", (1, 0), "i32"), ["transpose"]),
    (product("i8[1024,2048]", "i8[2048,1024]", (0, 1), "i32"), ["transpose"]),
    (product("f8E4M3FN[1003,2048]", "f8E4M3FN[1003,2048]", (0, 0)), ["pad", "pad"]),
    (product("bf16[2048,1003]", "bf16[1003,2048]", (1, 0)), ["pad"]),
    (product("bf16[2048,1003]", "bf16[1003,2050]", (1, 0)), ["pad", "pad"]),
])  # fmt: skip
def test_gemm_of_copied_operands_is_unchanged(graph: Graph, copy_ops: list[str]) -> None:
    rewritten = after(copy_operands, graph)
    assert copies(rewritten) == copy_ops
    args = random_args(graph)
    np.testing.assert_array_equal(evaluate(rewritten, args)[0], evaluate(graph, args)[0])


@pytest.mark.parametrize("graph", [
    product("i8[2048,1024]", "i8[2048,1024]", (1, 1), "i32"),
    product("bf16[2048,1024]", "bf16[1024,2048]", (1, 0)),
    product("bf16[1024,2048]", "bf16[1024,2048]", (0, 0)),  # 16-bit operands need no copy in either layout
    product("bf16[8,803]", "bf16[803,2048]", (1, 0)),  # too few FLOPs
    product("f32[2048,1003]", "f32[1003,2048]", (1, 0)),
    product("bf16[2048,101]", "bf16[101,2048]", (1, 0)),  # the contracted size is too short for descriptors
])  # fmt: skip
def test_unprofitable_operands_are_not_copied(graph: Graph) -> None:
    assert after(copy_operands, graph).nodes == graph.nodes


def test_copy_is_a_kernel_and_the_gemm_loads_it_by_tma() -> None:
    text = """func.func @f(%x: tensor<2048x1024xi8>, %w: tensor<1024x2048xi8>) -> tensor<2048x2048xi32> {
      %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<2048x1024xi8>, tensor<1024x2048xi8>) -> tensor<2048x2048xi32>
      return %0 : tensor<2048x2048xi32> }"""
    plan = api.plan(text, {"x": 1})
    assert len(plan.plan.items) == 2
    (body,) = [body for body in plan.plan.kernels.values() if any(node.op == "dot_general" for node in body.nodes)]
    source = kernel_source(body.name, body, plan.fused.mesh)
    assert source.text.count("_box.load([") == 2 and "b_box.load([tile_n * BLOCK_N, start]).T" in source.text
