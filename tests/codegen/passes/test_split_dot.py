"""Long products in parts: the same numbers, as many parts as fill a device, and products that stay."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshgen.codegen.passes import split_dot as pass_file
from meshgen.codegen.passes.split_dot import split_dot
from meshgen.codegen.roofline.kernel_time import device_of
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


@pytest.mark.parametrize(("launch_seconds", "is_split"), [(0.0, True), (0.24, True), (0.26, False), (1.0, False)])
def test_split_pays_for_launches_of_sum_and_of_what_follows(
    launch_seconds: float, is_split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts save half a second of multiplication; the sum of parts is one launch more, what follows the product another."""
    device = replace(device_of("cpu"), launch_seconds=launch_seconds)
    monkeypatch.setattr(pass_file, "device_of", lambda target: device)
    monkeypatch.setattr(pass_file, "memory_seconds", lambda nbytes, device: 0.0)
    monkeypatch.setattr(pass_file, "product_seconds", lambda of, device: 1.0 if of.batch == 1 else 0.5)
    split = after(split_dot, product("bf16[24,8192]", "bf16[8192,16]", ((1,), (0,))))
    assert parts(split) == (2 if is_split else 1)


@pytest.mark.parametrize(("sum_seconds", "is_split"), [(0.3, True), (0.6, False)])
def test_split_pays_for_bytes_of_partial_sums(
    sum_seconds: float, is_split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts save half a second of multiplication; their sum reads two results of f32 and writes one of bf16."""
    moved = (2 * 4 + 2) * 24 * 16
    device = replace(device_of("cpu"), launch_seconds=0.0)
    monkeypatch.setattr(pass_file, "device_of", lambda target: device)
    monkeypatch.setattr(pass_file, "memory_seconds", lambda n, device: sum_seconds * n / moved if n < 2**18 else 0.0)
    monkeypatch.setattr(pass_file, "product_seconds", lambda of, device: 1.0 if of.batch == 1 else 0.5)
    split = after(split_dot, product("bf16[24,8192]", "bf16[8192,16]", ((1,), (0,))))
    assert parts(split) == (2 if is_split else 1)
