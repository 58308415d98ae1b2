"""Tests of the `product-fusion` pass: GEMMs whose results meet in one op become one kernel."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import ONE, Body, check, random_args
from test_fuse import launches, run
from test_horizontal_fusion import PAIR, reduced

from meshgen.codegen.fuse import fuse
from meshgen.codegen.fusion.accumulators import can_share_main_loop, joint_products
from meshgen.codegen.product_fusion import product_fusion
from meshgen.codegen.roofline.kernel_time import kernel_seconds
from meshgen.codegen.scheduling.donation import hoist_donated_reads
from meshgen.codegen.scheduling.schedule import sequential_bytes
from meshgen.codegen.triton_source import KernelSource, kernel_source
from meshgen.ir.graph import Graph, Module, Node, Value
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.evaluator import evaluate

K = ((1,), (0,))


def joined(graph: Graph, mesh: Mesh = ONE) -> Module:
    before = hoist_donated_reads(fuse(Module(mesh, graph, "partition")))
    after = product_fusion(before)
    if len(launches(after)) == len(launches(before)):
        assert after is before
    assert sequential_bytes(after, "cuda:sm_90") <= sequential_bytes(before, "cuda:sm_90")
    assert sum(_seconds(after)) <= sum(_seconds(before))
    return after


def _seconds(module: Module) -> list[float]:
    return [kernel_seconds(module.kernels[name], "cuda:sm_90") for name in launches(module)]


def only_kernel(graph: Graph, ulps: float = 16, length: int = 1024) -> KernelSource:
    """Return the single kernel of a graph after checking that it computes the same."""
    module, args = joined(graph), random_args(graph)
    (body,) = module.kernels.values()
    for got, want in zip(run(module, args), evaluate(graph, args), strict=True):
        np.testing.assert_array_equal(np.asarray(got, np.float64), np.asarray(want, np.float64))
    return check(body, ulps=ulps, length=length)


def silu(b: Body, x: Value) -> Value:
    return b.op("multiply", x, b.op("logistic", x))


def gated(b: Body, x: Value, gate: Value, up: Value) -> tuple[Value, Value, Value]:
    g, u = b.dot(x, gate, K), b.dot(x, up, K)
    return g, u, b.op("multiply", silu(b, g), u)


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_sum_of_gemms_uses_one_accumulator(dtype: str) -> None:
    b = Body(f"{dtype}[64,96]", f"{dtype}[96,80]", f"{dtype}[64,32]", f"{dtype}[32,80]", f"{dtype}[64,80]")
    x, w, y, v, last = b.inputs
    total = b.op("add", b.op("add", b.dot(x, w, K), b.dot(y, v, K)), last)
    source = only_kernel(b.done(total))
    assert source.text.count("tl.zeros") == 1
    assert source.text.count("tl.dot") == 2


def test_sum_of_three_gemms_of_unequal_dims_uses_one_accumulator() -> None:
    b = Body("bf16[2,32,3,16]", "bf16[48,64]", "bf16[64,3,16]", "bf16[48,64]", "bf16[2,3,16,32]", "bf16[3,16,64]")
    x, w, y, v, z, u = b.inputs
    flat = b.op("reshape", x, to="bf16[2,32,48]")
    first = b.dot(flat, w, ((2,), (0,)))
    second = b.op("reshape", b.dot(b.op("reshape", y, to="bf16[64,48]"), v, K), to="bf16[2,32,64]")
    third = b.dot(z, u, ((1, 2), (0, 1)))
    source = only_kernel(b.done(b.op("add", b.op("add", first, second), third)))
    assert source.text.count("tl.zeros") == 1
    assert source.text.count("for start in") == 3


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
def test_gated_unit_loads_its_left_operand_once(dtype: str) -> None:
    b = Body(f"{dtype}[64,128]", f"{dtype}[128,96]", f"{dtype}[128,96]")
    source = only_kernel(b.done(gated(b, *b.inputs)[2]))
    assert source.text.count("tl.dot") == 2
    assert source.text.count("for start in") == 1
    assert source.text.count("tl.load") == 3


def test_gated_unit_has_one_descriptor_per_operand() -> None:
    b = Body("bf16[128,512]", "bf16[512,256]", "bf16[512,256]")
    source = only_kernel(b.done(gated(b, *b.inputs)[2]))
    assert source.text.count("make_tensor_descriptor") == 3


def test_gated_unit_also_stores_values_for_the_backward_pass() -> None:
    b = Body("bf16[64,128]", "bf16[128,96]", "bf16[128,96]")
    source = only_kernel(b.done(*gated(b, *b.inputs)))
    assert source.text.count("tl.store") == 3
    assert source.text.count("for start in") == 1


def test_gemms_of_different_rows_use_two_accumulators() -> None:
    b = Body("f32[64,96]", "f32[96,80]", "f32[64,32]", "f32[32,80]")
    x, w, y, v = b.inputs
    source = only_kernel(b.done(b.op("multiply", b.op("tanh", b.dot(x, w, K)), b.dot(y, v, K))))
    assert source.text.count("tl.zeros") == 2
    assert source.text.count("for start in") == 2


def test_second_accumulator_shrinks_the_tile() -> None:
    b = Body("bf16[4096,512]", "bf16[512,4096]", "bf16[4096,1024]", "bf16[1024,4096]")
    x, w, y, v = b.inputs
    total = b.op("multiply", b.dot(x, w, K), b.dot(y, v, K))
    (body,) = [Graph("held", b.inputs, b.done(total).nodes, [total])]
    assert len(joint_products(body)) == 2
    assert not can_share_main_loop(joint_products(body))
    tile = kernel_source("held", body, ONE).tile
    assert 2 * tile["m"] * tile["n"] <= 128 * 32 * tile["num_warps"]


def test_integer_gemms_are_summed_in_sequence() -> None:
    b = Body("i32[16,8]", "i32[8,24]", "i32[16,8]", "i32[8,24]")
    x, w, y, v = b.inputs
    source = only_kernel(b.done(b.op("add", b.dot(x, w, K), b.dot(y, v, K))))
    assert source.text.count("for k in") == 2


def test_gemms_are_not_joined_if_second_needs_result_of_first() -> None:
    b = Body("f32[256,512]", "f32[512,256]", "f32[512,256]")
    x, w, v = b.inputs
    first = b.dot(x, w, K)
    y = b.op("add", b.dot(x, v, K), b.wide(b.reduce("add", first, 1), first, (0,)))
    assert len(launches(joined(b.done(b.op("multiply", y, first))))) > 1


def test_gemm_is_not_delayed_by_a_collective() -> None:
    b = Body("f32[256,512]", "f32[512,256]", "f32[256,512]")
    x, w, y = b.inputs
    total = b.op("add", b.dot(x, w, K), b.dot(reduced(b, b.op("tanh", y)), w, K))
    assert len(launches(joined(b.done(total), PAIR))) == 3


def test_gemm_that_feeds_a_collective_is_not_delayed() -> None:
    b = Body("f32[256,512]", "f32[512,256]", "f32[512,256]")
    x, w, v = b.inputs
    first = b.dot(x, w, K)
    assert len(launches(joined(b.done(reduced(b, first), b.op("multiply", first, b.dot(x, v, K))), PAIR))) == 2


def test_dependent_gemms_are_not_joined() -> None:
    b = Body("f32[64,64]", "f32[64,64]", "f32[64,64]")
    x, w, v = b.inputs
    first = b.dot(x, w, K)
    assert len(launches(joined(b.done(b.op("add", first, b.dot(first, v, K)))))) == 2


def test_joined_gemms_do_not_extend_operand_lifetimes() -> None:
    """Check a GEMM with large operands and a small result, and a second GEMM that needs other large values first.

    Joining both GEMMs would keep the operands of the first one alive.
    """
    b = Body("f32[64,65536]", "f32[65536,64]", "f32[64,64]", "f32[65536,64]")
    x, w, y, u = b.inputs
    first = b.dot(b.op("transpose", b.dot(w, y, K), perm=(1, 0)), u, K)
    late = b.dot(b.dot(b.dot(x, w, K), y, K), y, K)
    joined(b.done(b.op("add", first, late)))  # `joined` checks that memory does not grow


def test_gemms_that_need_smaller_tiles_are_not_joined() -> None:
    """Check large GEMMs: a second live accumulator needs smaller tiles, so two launches are faster."""
    b = Body(*["bf16[8192,8192]"] * 4)
    x, w, y, v = b.inputs
    total = b.op("multiply", b.op("tanh", b.dot(x, w, K)), b.dot(y, v, K))
    assert len(launches(joined(b.done(total)))) == 2


def test_gemms_in_a_loop_body_are_joined() -> None:
    b = Body("f32[64,64]", "f32[64,64]", "f32[64,64]")
    x, w, v = b.inputs
    body = Body("i32[]", "f32[64,64]")
    count, state = body.inputs
    total = body.op("add", body.dot(state, w, K), body.dot(state, v, K))
    step = body.done(body.op("add", count, body.constant(1, "i32")), total)
    test = Body("i32[]", "f32[64,64]")
    limit = test.op("compare", test.inputs[0], test.constant(100, "i32"), direction="LT", to="i1[]")
    start = b.constant(0, "i32")
    results = [Value(v.type) for v in (start, x)]
    b.graph.nodes.append(Node("while", [start, x], results, {}, regions=(test.done(limit), step)))
    before = hoist_donated_reads(fuse(Module(ONE, b.done(results[1]), "partition")))
    after = product_fusion(before)
    counts = [
        [n.op for loop in m.graph.nodes for r in loop.regions for n in r.nodes].count("kernel") for m in (before, after)
    ]
    assert counts[1] == counts[0] - 1
