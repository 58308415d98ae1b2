"""Of a kernel's candidates the first is shipped whose build shows no fault."""

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
    """gelu(x @ w + bias) + residual, all but x and w of a type."""
    more = (f"{dtype}[{columns}]", f"{dtype}[{rows},{columns}]")
    b = Body(f"bf16[{rows},{k}]", f"bf16[{k},{columns}]", *more, name="layer")
    x, w, bias, residual = b.inputs
    h = b.dot(x, w, ((1,), (0,)), dtype=dtype)
    return b.done(b.op("add", gelu(b, b.op("add", h, b.wide(bias, h, (1,)))), residual))


def parts(source: KernelSource) -> int:
    return source.text.count("tl.store(")


def test_candidates_take_the_epilogue_in_ever_more_parts_before_they_take_a_smaller_tile() -> None:
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
    ]  # the first that is built, and some that tuning may find better


@pytest.mark.parametrize("rows, columns", [(40, 130), (64, 64), (7, 33)])
def test_an_epilogue_in_parts_computes_the_same(rows: int, columns: int) -> None:
    body = layer(rows, columns, 48)
    args = random_args(body)
    sources = list(kernel_sources("layer", body, ONE))
    assert {parts(source) for source in sources} >= {1, 2}
    wanted = evaluate(body, args)[0].astype(np.float32)
    for source in sources:
        (found,) = launch(source, body, args)
        np.testing.assert_allclose(found.astype(np.float32), wanted, atol=2.0**-7 * np.abs(wanted).max())


def sum_of_many(live: int) -> KernelSource:
    """A kernel of one warp that keeps `live` tiles of 512 elements in registers: loads that keep their order, the last used first."""
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


def test_a_candidate_that_spills_is_not_shipped() -> None:
    """Nothing is built beyond the first without a fault."""
    b = Body("f32[512]", "f32[512]")
    body = b.done(b.op("add", *b.inputs))
    given = [sum_of_many(live) for live in (24, 16, 4, 3)]
    taken: list[KernelSource] = []

    def candidates(name: str) -> Iterator[KernelSource]:
        for source in given:
            taken.append(source)
            yield source

    sources, built = build_best({"many": body}, candidates, ["sm_90"])
    assert sources["many"] is given[2] and built["many", "sm_90"].spill_bytes == 0
    assert taken == given[:3]


def test_where_all_spill_the_least_is_shipped() -> None:
    b = Body("f32[512]", "f32[512]")
    body = b.done(b.op("add", *b.inputs))
    worse, better = sum_of_many(24), sum_of_many(16)
    sources, built = build_best({"many": body}, lambda name: iter([worse, better, worse]), ["sm_90"])
    assert sources["many"] is better and built["many", "sm_90"].spill_bytes > 0


def test_a_kernel_with_one_candidate_gets_more_warps_where_it_spills() -> None:
    b = Body("f32[512]", "f32[512]")
    body = b.done(b.op("add", *b.inputs))
    sources, built = build_best({"many": body}, lambda name: iter([sum_of_many(16)]), ["sm_90"])
    assert sources["many"].num_warps == sources["many"].tile["warps"] == 2
    assert built["many", "sm_90"].spill_bytes == 0


def test_where_none_can_be_launched_the_first_is_refused() -> None:
    b = Body("bf16[512,512]", "bf16[512,512]", name="product")
    body = b.done(b.dot(*b.inputs, ((1,), (0,))))
    big = [replace(next(kernel_sources("product", body, ONE)), num_stages=stages) for stages in (30, 29)]
    with pytest.raises(CodegenError, match=r"MG0303: kernel 'product' needs .* of shared memory"):
        build_best({"product": body}, lambda name: iter(big), ["sm_90"])


def test_a_candidate_that_misses_warp_groups_is_not_shipped_where_another_has_them() -> None:  # fmt: skip
    b = Body("bf16[16,1024]", "bf16[1024,256]", name="product")
    x, w = b.inputs
    body = b.done(b.dot(x, w, ((1,), (0,))))
    older, newer = (kernel_source("product", body, ONE, f"cuda:{arch}") for arch in ("sm_80", "sm_90"))
    taken: list[KernelSource] = []

    def candidates(name: str) -> Iterator[KernelSource]:
        for source in (older, newer, older):
            taken.append(source)
            yield source

    sources, built = build_best({"product": body}, candidates, ["sm_90"])
    assert sources["product"] is newer and taken == [older, newer]
    assert missing(built["product", "sm_90"].instructions, "sm_90") == 0
    assert build_best({"product": body}, lambda name: iter([older]), ["sm_90"])[0]["product"] is older


def test_a_candidate_that_the_compiler_refuses_is_dropped() -> None:
    """Where it refuses all of them, it is told why it refuses the first."""
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


def test_the_measured_tile_of_a_reduction_is_taken_for_other_numbers_of_rows() -> None:
    (tile,) = candidate_tiles(sum_of_rows(4000))
    source = next(candidate_sources("rows", sum_of_rows(4096), ONE, "cuda:sm_90", {**tile, "warps": 8}))
    assert source.is_measured and source.num_warps == 8
