"""Tests of the choice among a kernel's candidates: the first one whose build has no fault is shipped."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from bodies import ONE, Body, candidate_tiles, launch, random_args

from meshgen.codegen.building.candidates import build_best, candidate_sources, missing
from meshgen.codegen.emit.dot import DOT
from meshgen.codegen.emit.templates import plan_body
from meshgen.codegen.roofline.kernel_time import device_of
from meshgen.codegen.triton_source import KernelSource, kernel_source, kernel_sources
from meshgen.errors import CodegenError
from meshgen.ir.graph import Graph, Value
from meshgen.ops.evaluate.evaluator import evaluate


def gelu(b: Body, x: Value) -> Value:
    inner = b.op("add", x, b.op("multiply", b.splat(0.044715, x), b.op("multiply", b.op("multiply", x, x), x)))
    return b.op("multiply", x, b.op("add", b.op("tanh", b.op("multiply", b.splat(0.8, x), inner)), b.splat(1.0, x)))


def layer(rows: int, columns: int, k: int, dtype: str = "bf16") -> Graph:
    """Return gelu(x @ w + bias) + residual with bf16 `x` and `w`, and everything else in `dtype`."""
    more = (f"{dtype}[{columns}]", f"{dtype}[{rows},{columns}]")
    b = Body(f"bf16[{rows},{k}]", f"bf16[{k},{columns}]", *more, name="layer")
    x, w, bias, residual = b.inputs
    h = b.dot(x, w, ((1,), (0,)), dtype=dtype)
    return b.done(b.op("add", gelu(b, b.op("add", h, b.wide(bias, h, (1,)))), residual))


def parts(source: KernelSource) -> int:
    return source.text.count("tl.store(")


def test_candidates_split_the_epilogue_before_shrinking_the_tile() -> None:
    plan = plan_body(layer(8192, 4096, 4096), device_of("sm_90"))
    assert plan.template is DOT and plan.roles["dot"].op == "dot_general"  # pyright: ignore
    assert [tile.parts for tile in plan.candidates if tile.is_specialized] == [1, 2, 1, 1]
    shapes = [(tile.m, tile.n, tile.parts) for tile in plan.candidates if not tile.is_specialized]
    assert shapes[:4] == [(128, 256, 1), (128, 256, 2), (128, 256, 4), (128, 128, 1)]
    forms = [(tile.k, tile.is_specialized) for tile in plan.candidates if tile.n == 256 and tile.m == 128]
    assert forms == [
        *[(128, True)] * 2,
        *[(64, False)] * 3,
        *[(64, True)] * 2,
    ]  # the candidate that is built first, and further ones that tuning may prefer


@pytest.mark.parametrize("rows, columns", [(40, 130), (64, 64), (7, 33)])
def test_split_epilogue_computes_the_same(rows: int, columns: int) -> None:
    body = layer(rows, columns, 48)
    args = random_args(body)
    sources = list(kernel_sources("layer", body, ONE))
    assert {parts(source) for source in sources} >= {1, 2}
    expected = evaluate(body, args)[0].astype(np.float32)
    for source in sources:
        (result,) = launch(source, body, args)
        np.testing.assert_allclose(result.astype(np.float32), expected, atol=2.0**-7 * np.abs(expected).max())


def register_heavy_source(live: int) -> KernelSource:
    """Return a one-warp kernel that keeps `live` tiles of 512 elements in registers.

    Loads are volatile, so they keep their order, and the last one is used first.
    """
    body = Body("f32[512]", "f32[512]")
    (source,) = kernel_sources("many", body.done(body.op("add", *body.inputs)), ONE)
    loads = [f"    x{n} = tl.load(x0_ptr + (i * {2 * n + 1}) % 512, volatile=True)" for n in range(live)]
    uses = [f"    x0 = x0 * x0 + x{n}" for n in reversed(range(1, live))]
    lines = [
        "import triton\nimport triton.language as tl\n\n\n@triton.jit",
        "def many(x0_ptr, x1_ptr, add_out_ptr, BLOCK: tl.constexpr):\n    i = tl.arange(0, BLOCK)",
        *loads, *uses, "    tl.store(add_out_ptr + i, x0)\n",
    ]  # fmt: skip
    return replace(source, text="\n".join(lines), num_warps=1)


def test_spilling_candidate_is_skipped() -> None:
    """Check that the first candidate without spills is shipped, and that no candidate after it is built."""
    b = Body("f32[512]", "f32[512]")
    body = b.done(b.op("add", *b.inputs))
    sources_by_registers = [register_heavy_source(live) for live in (24, 16, 4, 3)]
    tried: list[KernelSource] = []

    def candidates(name: str) -> Iterator[KernelSource]:
        for source in sources_by_registers:
            tried.append(source)
            yield source

    sources, built = build_best({"many": body}, candidates, ["sm_90"])
    assert sources["many"] is sources_by_registers[2] and built["many", "sm_90"].spill_bytes == 0
    assert tried == sources_by_registers[:3]


def test_least_spilling_candidate_is_shipped_if_all_spill() -> None:
    b = Body("f32[512]", "f32[512]")
    body = b.done(b.op("add", *b.inputs))
    worse, better = register_heavy_source(24), register_heavy_source(16)
    sources, built = build_best({"many": body}, lambda name: iter([worse, better, worse]), ["sm_90"])
    assert sources["many"] is better and built["many", "sm_90"].spill_bytes > 0


def test_single_spilling_candidate_gets_more_warps() -> None:
    b = Body("f32[512]", "f32[512]")
    body = b.done(b.op("add", *b.inputs))
    sources, built = build_best({"many": body}, lambda name: iter([register_heavy_source(16)]), ["sm_90"])
    assert sources["many"].num_warps == sources["many"].tile["warps"] == 2
    assert built["many", "sm_90"].spill_bytes == 0


def test_error_names_first_candidate_if_none_can_launch() -> None:
    b = Body("bf16[512,512]", "bf16[512,512]", name="product")
    body = b.done(b.dot(*b.inputs, ((1,), (0,))))
    big = [replace(next(kernel_sources("product", body, ONE)), num_stages=stages) for stages in (30, 29)]
    with pytest.raises(CodegenError, match=r"MG0303: kernel 'product' needs .* of shared memory"):
        build_best({"product": body}, lambda name: iter(big), ["sm_90"])


def test_candidate_without_wgmma_is_skipped_if_another_has_it() -> None:  # fmt: skip
    b = Body("bf16[16,1024]", "bf16[1024,256]", name="product")
    x, w = b.inputs
    body = b.done(b.dot(x, w, ((1,), (0,))))
    older, newer = (kernel_source("product", body, ONE, f"cuda:{arch}") for arch in ("sm_80", "sm_90"))
    tried: list[KernelSource] = []

    def candidates(name: str) -> Iterator[KernelSource]:
        for source in (older, newer, older):
            tried.append(source)
            yield source

    sources, built = build_best({"product": body}, candidates, ["sm_90"])
    assert sources["product"] is newer and tried == [older, newer]
    assert missing(built["product", "sm_90"].instructions, "sm_90") == 0
    assert build_best({"product": body}, lambda name: iter([older]), ["sm_90"])[0]["product"] is older


def test_candidate_that_does_not_compile_is_skipped() -> None:
    """Check that the next candidate is shipped. If no candidate compiles, the error is that of the first one."""
    b = Body("f32[512]", "f32[512]")
    body = b.done(b.op("add", *b.inputs))
    (good,) = kernel_sources("sum", body, ONE)
    bad = [replace(good, text=good.text.replace("tl.store(", f"tl.{name}(")) for name in ("unknown", "unheard")]
    sources, built = build_best({"sum": body}, lambda name: iter([*bad, good]), ["sm_80", "sm_90"])
    assert sources["sum"] is good and len(built) == 2
    with pytest.raises(CodegenError, match="unknown") as caught:
        build_best({"sum": body}, lambda name: iter(bad), ["sm_80", "sm_90"])
    assert [fault.code for fault in caught.value.diagnostics] == ["MG0302"] * 2


def sum_of_rows(rows: int) -> Graph:
    b = Body(f"f32[{rows},1000]")
    return b.done(b.reduce("add", b.inputs[0], 1))


def test_measured_reduction_tile_is_used_for_other_row_counts() -> None:
    (tile,) = candidate_tiles(sum_of_rows(4000))
    source = next(candidate_sources("rows", sum_of_rows(4096), ONE, "cuda:sm_90", {**tile, "warps": 8}))
    assert source.is_measured and source.num_warps == 8
