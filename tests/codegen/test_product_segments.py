"""Tests of GEMMs of unequal sizes as segments of one launch, whose programs all use one tile shape."""

from __future__ import annotations

import pytest
from bodies import Body, check
from test_fuse import launches
from test_horizontal_fusion import PAIR, computed, joined, reduced

from meshgen.codegen.fusion.accumulators import side_by_side_products
from meshgen.codegen.horizontal_fusion import is_faster_together
from meshgen.codegen.roofline.kernel_time import DEVICES, kernel_seconds
from meshgen.ir.graph import Graph, Value
from meshgen.ops.segments import segments

K = ((1,), (0,))
ROWS = ((0,), (0,))


def projections(dtype: str, k: int = 96) -> tuple[Body, list[Value]]:
    """Return GEMMs of one left operand with three weights, two of which have equal widths."""
    b = Body(f"{dtype}[64,{k}]", f"{dtype}[{k},128]", f"{dtype}[{k},40]", f"{dtype}[{k},40]")
    return b, [b.dot(b.inputs[0], w, K) for w in b.inputs[1:]]


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_projections_of_unequal_widths_share_a_launch(dtype: str) -> None:
    b, products = projections(dtype)
    assert len(computed(b.done(*products))) == 1


def test_gemms_of_equal_widths_share_a_segment() -> None:
    b, products = projections("f32")
    body = b.done(*products)
    assert [len(part.outputs) for part in segments(body)] == [1, 2]
    source = check(body, ulps=16, length=96)
    assert source.template == "segmented"
    assert source.text.count("tl.dot") == 2


def test_weight_gradients_share_a_launch() -> None:
    """Check GEMMs of unequal sizes over rows of several dims, each scaled in its epilogue."""
    b = Body("f32[2,48,64]", "f32[2,48,3,16]", "f32[2,16,48]", "f32[96,24]")
    x, q, k, v = b.inputs
    flat = b.op("reshape", x, to="f32[96,64]")
    products = [b.dot(x, q, ((0, 1), (0, 1))), b.dot(k, x, ((0, 2), (0, 1))), b.dot(v, flat, ROWS)]
    results = [b.op("multiply", gradient, b.splat(0.5, gradient)) for gradient in products]
    assert len(computed(b.done(*results))) == 1


def test_segments_of_unequal_k_have_their_own_descriptors() -> None:
    b = Body("bf16[128,512]", "bf16[512,128]", "bf16[128,1024]", "bf16[1024,64]")
    x, w, y, v = b.inputs
    source = check(b.done(b.dot(x, w, K), b.dot(y, v, K)), ulps=16, length=1024)
    assert source.text.count("make_tensor_descriptor") == 4
    assert source.text.count("for start in") == 2


def test_equal_segments_share_their_source() -> None:
    b = Body(*["f32[32,48]", "f32[48,64]"] * 3)
    pairs = zip(b.inputs[::2], b.inputs[1::2], strict=True)
    source = check(b.done(*(b.dot(x, w, K) for x, w in pairs)), ulps=16, length=48)
    assert source.text.count("tl.dot") == 1


def test_gemms_of_unequal_dtypes_are_not_segments() -> None:
    b = Body("f32[64,96]", "f32[96,80]", "bf16[64,96]", "bf16[96,80]")
    x, w, y, v = b.inputs
    assert len(computed(b.done(b.dot(x, w, K), b.dot(y, v, K)))) == 2


def test_gemm_and_reduction_are_not_segments() -> None:
    b = Body("f32[64,96]", "f32[96,80]", "f32[48,96]")
    x, w, y = b.inputs
    assert len(computed(b.done(b.dot(x, w, K), b.reduce("add", y, 0)))) == 2


def test_gated_units_are_not_segments() -> None:
    """Check gated units, whose programs compute several GEMMs each."""
    b = Body(*["f32[64,96]", "f32[96,80]", "f32[96,80]"] * 2)
    results: list[Value] = []
    for n in (0, 3):
        x, w, v = b.inputs[n : n + 3]
        results.append(b.op("multiply", b.op("tanh", b.dot(x, w, K)), b.dot(x, v, K)))
    assert side_by_side_products(b.done(*results)) == []


def test_gemms_that_need_another_wave_are_not_joined() -> None:
    """Check a GEMM of almost four waves, and a small GEMM that takes less time than a fifth wave."""
    device = DEVICES["sm_90"]
    b = Body("bf16[4096,4096]", "bf16[4096,4096]", "bf16[16,8192]", "bf16[8192,8192]")
    x, w, y, v = b.inputs
    b.done(b.dot(x, w, K), b.dot(y, v, K))
    large, small = b.graph.nodes
    assert not is_faster_together([large], [small], device)
    assert is_faster_together([large], [large], device)


@pytest.mark.parametrize("early", [True, False])
def test_gemm_that_hides_a_collective_is_not_moved(early: bool) -> None:
    b = Body("f32[256,512]", "f32[512,256]", "f32[512,64]", "f32[96,512]")
    x, w, v, y = b.inputs
    first = b.dot(x, w, K)
    message = None if early else reduced(b, y)
    second = b.dot(x, v, K)
    module = joined(b.done(first, message or reduced(b, y), second), PAIR)
    assert len(launches(module)) == (1 if early else 2)


def test_predicted_time_of_segments_is_below_their_sum() -> None:
    b, products = projections("bf16", 4096)
    seconds = kernel_seconds(b.done(*products), "cuda:sm_90")
    alone: list[float] = []
    for n in range(3):
        builder, results = projections("bf16", 4096)
        graph = builder.done(results[n])
        alone.append(kernel_seconds(Graph("one", graph.inputs, [graph.nodes[n]], graph.outputs), "cuda:sm_90"))
    assert max(alone) <= seconds < sum(alone)
