"""Tests of warp-specialized GEMMs (one warp group copies, two multiply) on the emulated GPU.

Tiles are a quarter as wide as in production but otherwise equal. `test_forms_of_architectures` tests a GEMM with tiles
of production width.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

import numpy as np
import pytest
from bodies import ONE, Body, launch, random_args

from meshgen.codegen.triton_source import KernelSource, kernel_sources
from meshgen.ir.graph import Graph, Value
from meshgen.ops.evaluate.evaluator import evaluate
from tests.emulator.programs import emulate
from tests.emulator.ptx_builds import ptx_of

pytestmark = pytest.mark.usefixtures("two_multiprocessors", "tma_from_shorter_k", "narrow_tiles")
Array = np.ndarray[Any, Any]
Epilogue = Callable[[Body, Value], Value]
K = 440  # contracted size: long enough for TMA descriptors in these tests, and no multiple of a tile's k
LONG = 632  # longer contracted size, for which tiles of every variant exist


def product(m: int, n: int, *more: str, left: bool = False, right: bool = False, dtype: str = "bf16", k: int = K,
            epilogue: Epilogue = lambda _, value: value) -> Graph:  # fmt: skip
    """Return a GEMM with an epilogue that may read the operands `more`.

    `left` and `right` transpose the operand's layout.
    """
    b = Body(
        f"{dtype}[{f'{k},{m}' if left else f'{m},{k}'}]",
        f"{dtype}[{f'{n},{k}' if right else f'{k},{n}'}]",
        *more,
        name="product",
    )
    x, w, *_ = b.inputs
    return b.done(epilogue(b, b.dot(x, w, ((0 if left else 1,), (1 if right else 0,)))))


def specialized(body: Graph) -> list[KernelSource]:
    sources = [source for source in kernel_sources("product", body, ONE) if source.tile["is_specialized"]]
    assert sources
    return sources


def agree(body: Graph, source: KernelSource, inputs: Sequence[Array] = (), *, interpreted: bool = True) -> None:
    args = list(inputs) or random_args(body)
    references = evaluate(body, args)
    built = ptx_of(source, body, "sm_90")
    assert built.threads == 384
    typed = [np.asarray(arg, value.type.numpy_dtype) for arg, value in zip(args, body.inputs, strict=True)]
    runs = [emulate(source, built, "sm_90", body, typed, {}), *([launch(source, body, args)] if interpreted else [])]
    for results in runs:
        for result, reference in zip(results, references, strict=True):
            expected = reference.astype(np.float32)
            np.testing.assert_allclose(result.astype(np.float32), expected, atol=2.0**-7 * np.abs(expected).max())


@pytest.mark.parametrize("left, right, form", [(False, False, 1), (True, False, 2), (False, True, 3), (True, True, 1)])
def test_specialized_gemm_matches_reference_for_all_layouts(left: bool, right: bool, form: int) -> None:
    """Check programs that compute two tiles each. Some tiles extend past the last row, column and k."""
    body = product(248, 120, left=left, right=right, k=LONG)
    sources = specialized(body)
    assert len(sources) == 4 and all("warp_specialize=True" in source.text for source in sources)
    agree(body, sources[0])
    agree(body, sources[form], interpreted=False)


def test_specialized_gemm_of_one_tile_per_program_matches_reference() -> None:
    agree(body := product(256, 64, dtype="f16", k=1024), specialized(body)[0])


def bias_and_residual(b: Body, y: Value) -> Value:
    """Apply an epilogue with a vector per column, a vector per row, and a matrix."""
    _, _, bias, scale, residual = b.inputs
    scaled = b.op("multiply", b.op("add", y, b.wide(bias, y, (1,))), b.wide(scale, y, (0,)))
    return b.op("add", b.op("tanh", scaled), residual)


def by_position(b: Body, y: Value) -> Value:
    """Apply an epilogue that depends on row and column indices and adds a transposed residual."""
    rows, columns = (b.op("iota", to=f"i32[{y.type.sizes[0]},{y.type.sizes[1]}]", dim=dim) for dim in (0, 1))
    masked = b.op("select", b.op("compare", rows, columns, direction="GE"), y, b.splat(0, y))
    return b.op("add", masked, b.op("transpose", b.inputs[2], perm=(1, 0)))


def by_heads(b: Body, y: Value) -> Value:
    """Apply an epilogue that adds a slice of a larger operand and moves groups of columns in front of the rows."""
    part = b.op("slice", b.inputs[2], start=(3, 5), limit=(251, 125), stride=(1, 1))
    groups = b.op("reshape", b.op("add", y, part), to="bf16[2,124,15,8]")
    return b.op("transpose", groups, perm=(0, 2, 1, 3))


@pytest.mark.parametrize("body", [
    product(248, 120, "bf16[120]", "bf16[248]", "bf16[248,120]", epilogue=bias_and_residual),
    product(248, 120, "bf16[120,248]", epilogue=by_position),
    product(256, 128, epilogue=lambda b, y: b.op("transpose", b.op("tanh", y), perm=(1, 0))),
    product(248, 120, "bf16[300,136]", epilogue=by_heads),
], ids=["bias and residual", "by position", "transposed", "by heads"])  # fmt: skip
def test_epilogue_of_each_warp_group_uses_its_own_rows(body: Graph) -> None:
    agree(body, specialized(body)[0])


def test_specialized_batched_gemm_matches_reference() -> None:
    b = Body(f"bf16[2,192,{LONG}]", f"bf16[2,{LONG},80]", name="product")
    x, w = b.inputs
    body = b.done(b.dot(x, w, ((2,), (1,)), ((0,), (0,))))
    agree(body, specialized(body)[0])


def test_specialized_sibling_gemms_match_reference() -> None:
    b = Body(f"bf16[192,{LONG}]", f"bf16[{LONG},80]", f"bf16[{LONG},80]", name="product")
    x, *weights = b.inputs
    body = b.done(*(b.dot(x, w, ((1,), (0,))) for w in weights))
    agree(body, specialized(body)[0])


def test_f32_results_use_narrower_tiles() -> None:
    """Check GEMMs with f32 results. Each warp group multiplies four 64-row tiles, or stores its rows in two halves."""
    b = Body(f"bf16[248,{K}]", f"bf16[{K},120]", "f32[120]", name="product")
    x, w, bias = b.inputs
    y = b.dot(x, w, ((1,), (0,)), dtype="f32")
    body = b.done(b.op("multiply", y, b.wide(bias, y, (1,))))
    sources = specialized(body)
    assert [(source.tile["m"], source.tile["n"], source.tile["parts"]) for source in sources] == [
        (256, 32, 1),
        (128, 64, 2),
    ]
    for source in sources:
        agree(body, source)


def test_f32_residual_is_added_in_two_subtiles() -> None:
    """Check an f32 residual with an epilogue in two subtiles, which compiles without spills."""
    b = Body(f"bf16[248,{K}]", f"bf16[{K},120]", "f32[248,120]", name="product")
    x, w, residual = b.inputs
    body = b.done(b.op("add", b.dot(x, w, ((1,), (0,)), dtype="f32"), residual))
    (source,) = (candidate for candidate in specialized(body) if candidate.tile["parts"] == 2)
    agree(body, source)


def test_each_subtile_of_the_epilogue_has_its_own_accumulator() -> None:
    body = product(248, 120, "bf16[120]", "bf16[248]", "bf16[248,120]", epilogue=bias_and_residual, k=LONG)
    (source,) = (candidate for candidate in specialized(body) if candidate.tile["parts"] == 2)
    assert source.text.count("tl.store(") == 2 and "tl.split" not in source.text
    agree(body, source)


@pytest.mark.parametrize("m, n, result", [(256, 64, "bf16"), (248, 72, "bf16"), (248, 72, "f32")])
def test_gated_gemms_share_the_left_tile(m: int, n: int, result: str) -> None:
    b = Body(f"bf16[{m},{K}]", f"bf16[{K},{n}]", f"bf16[{K},{n}]", name="product")
    x, *weights = b.inputs
    gate, up = (b.dot(x, w, ((1,), (0,)), dtype=result) for w in weights)
    body = b.done(b.op("multiply", b.op("tanh", gate), up))
    source = specialized(body)[0]
    assert source.text.count("a_box.load(") == 1 and source.text.count("tl.dot(") == 2
    agree(body, source)


@pytest.mark.parametrize("result", ["i32", "bf16"])
def test_specialized_integer_gemm_matches_reference(result: str) -> None:
    b = Body("i8[248,624]", "i8[120,624]", name="product")
    y = b.dot(*b.inputs, ((1,), (1,)), dtype="i32")
    if result == "bf16":
        y = b.op("convert", y, to="bf16[248,120]")
    body = b.done(y)
    (source,) = specialized(body)
    agree(body, source)


def test_specialized_gemm_is_deterministic() -> None:
    body = product(248, 120)
    source, args = specialized(body)[0], random_args(body)
    built = ptx_of(source, body, "sm_90")
    first, second = (emulate(source, built, "sm_90", body, args, {}) for _ in range(2))
    assert np.array_equal(first[0], second[0])


def test_specialized_equal_segments_share_a_loop() -> None:
    """Check GEMMs with separate operands: a program creates all descriptors and selects those of its tile."""
    b = Body(*[f"bf16[248,{K}]", f"bf16[{K},128]"] * 3, name="product")
    pairs = zip(b.inputs[::2], b.inputs[1::2], strict=True)
    body = b.done(*(b.op("tanh", b.dot(x, w, ((1,), (0,)))) for x, w in pairs))
    source = specialized(body)[0]
    assert source.template == "segmented" and source.text.count("tl.dot(") == 1
    agree(body, source)


def test_specialized_unequal_segments_share_a_main_loop() -> None:
    """Check GEMMs of unequal sizes with separate epilogues; two of the GEMMs share a left operand.

    A program computes tiles of several GEMMs.
    """
    b = Body("bf16[248,392]", "bf16[392,128]", "bf16[256,520]", "bf16[520,80]", "bf16[520,80]", "bf16[128]", "bf16[130,392]",
             "bf16[392,64]", name="product")  # fmt: skip
    x, w, y, v, u, bias, z, t = b.inputs
    first, *siblings, last = (b.dot(*pair, ((1,), (0,))) for pair in ((x, w), (y, v), (y, u), (z, t)))
    body = b.done(b.op("add", first, b.wide(bias, first, (1,))), *siblings, b.op("tanh", last))
    source = specialized(body)[0]
    assert source.template == "segmented" and source.grid == (2, 1, 1)
    assert source.text.count("tl.range(") == 1 and source.text.count("make_tensor_descriptor") == 8
    agree(body, source)


def test_specialized_sum_of_gemms_uses_one_loop() -> None:
    """Check that each iteration belongs to one GEMM, also the partial last iteration of a GEMM."""
    longer = 600
    b = Body(
        f"bf16[248,{K}]",
        f"bf16[128,{K}]",
        f"bf16[248,{longer}]",
        f"bf16[128,{longer}]",
        "bf16[248,128]",
        name="product",
    )
    x, w, y, v, residual = b.inputs
    total = b.op("add", b.dot(x, w, ((1,), (1,))), b.dot(y, v, ((1,), (1,))))
    body = b.done(b.op("add", total, residual))
    for index, source in enumerate(specialized(body)[:3]):
        assert source.text.count("tl.range(") == 1 and source.text.count("make_tensor_descriptor") == 4
        agree(body, source, interpreted=index == 0)


@pytest.mark.parametrize("sizes", [(130, 0, 3, 450, 10), (632, 0, 0, 0, 0), (20, 30, 0, 7, 40)])
def test_specialized_contracting_ragged_matmul_matches_reference(sizes: tuple[int, ...]) -> None:
    """Check empty groups and rows that belong to no group."""
    b = Body("bf16[632,256]", "bf16[632,128]", "i32[5]", "i32[5]", name="product")
    body = b.done(b.op("ragged_dot", *b.inputs, to="bf16[5,256,128]", contracts=True))
    ends = np.cumsum(sizes).astype(np.int32)
    source = specialized(body)[0]
    agree(body, source, [*random_args(body)[:2], ends - np.array(sizes, np.int32), ends])


BOUNDS = {
    "one after the other": (False, (0, 130, 130, 133, 240), (130, 130, 133, 240, 248)),
    "rows of no group": (True, (10, 40, 40, 150, 200), (40, 40, 128, 190, 201)),
    "none": (False, (0, 0, 0, 0, 0), (0, 0, 0, 0, 0)),
    "in any order, and in common": (True, (200, 0, 100, 7, -5), (1000, 128, 100, 220, 20)),
}


@pytest.mark.parametrize("right, starts, ends", BOUNDS.values(), ids=BOUNDS)
def test_specialized_ragged_matmul_matches_reference(right: bool, starts: Sequence[int], ends: Sequence[int]) -> None:
    """Check programs that compute several row tiles. `right` transposes the group matrices."""
    b = Body(
        f"bf16[248,{K}]",
        f"bf16[5,56,{K}]" if right else f"bf16[5,{K},56]",
        "i32[5]",
        "i32[5]",
        "bf16[248,56]",
        name="product",
    )
    x, w, *bounds, residual = b.inputs
    w = b.op("transpose", w, perm=(0, 2, 1)) if right else w
    y = b.op("ragged_dot", x, w, *bounds, to="bf16[248,56]", contracts=False)
    body = b.done(b.op("add", y, residual))
    args = random_args(body)
    inputs = [*args[:2], *(np.array(bounds_of_groups, np.int32) for bounds_of_groups in (starts, ends)), args[4]]
    source = specialized(body)[right]  # tests another variant for each layout
    assert source.grid == (2, 1, 1) and source.text.count("tl.range(") == 1
    agree(body, source, inputs)


def test_gated_experts_share_the_left_tile() -> None:
    b = Body(f"bf16[248,{K}]", f"bf16[3,{K},72]", f"bf16[3,{K},72]", "i32[3]", "i32[3]", name="product")
    x, gate, up, starts, ends = b.inputs
    gate, up = (b.op("ragged_dot", x, w, starts, ends, to="bf16[248,72]", contracts=False) for w in (gate, up))
    body = b.done(b.op("multiply", b.op("tanh", gate), up))
    source = specialized(body)[0]
    assert source.text.count("a_box.load(") == 1 and source.text.count("tl.dot(") == 2
    bounds = np.array([[0, 100, 100], [100, 100, 230]], np.int32)
    agree(body, source, [*random_args(body)[:3], *bounds])


def activated(b: Body) -> Value:
    """Return tanh(x) * y with a transposed y."""
    x, _, y = b.inputs
    return b.op("multiply", b.op("tanh", x), b.op("transpose", y, perm=(1, 0)))


def test_left_operand_is_computed_by_the_mma_warps() -> None:
    b = Body("bf16[248,640]", "bf16[640,120]", "bf16[640,248]", name="product")
    body = b.done(b.dot(activated(b), b.inputs[1], ((1,), (0,))))
    (source,) = specialized(body)
    assert source.text.count("a_box") == 4 and source.tile["num_stages"] == 3
    agree(body, source)


def test_epilogue_rereads_the_left_operand() -> None:
    """Check an epilogue that reads the GEMM's left operand again, by tiles of another shape."""
    b = Body("bf16[128,640]", "bf16[640,640]", name="product")
    x, w = b.inputs
    body = b.done(b.op("add", b.dot(b.op("tanh", x), w, ((1,), (0,))), x))
    source = specialized(body)[0]
    assert source.text.count("x0_ptr + m_first") >= 1
    agree(body, source)


def test_gemms_that_need_pointer_loads_are_not_specialized() -> None:
    """Check GEMMs whose operand is multiplied by a factor per row or is unaligned, and sums of GEMMs with unequal
    layouts.
    """
    scaled = Body("bf16[512,1024]", "bf16[1024,768]", "bf16[512]", name="product")
    summed = Body("bf16[512,1024]", "bf16[1024,768]", "bf16[512,1024]", "bf16[768,1024]", name="product")
    (x, w, scale), (left, right, other, more) = scaled.inputs, summed.inputs
    gemms = summed.dot(left, right, ((1,), (0,))), summed.dot(other, more, ((1,), (1,)))
    rows = scaled.op("multiply", x, scaled.wide(scale, x, (0,)))
    for body in (
        scaled.done(scaled.dot(rows, w, ((1,), (0,)))),
        product(512, 767),
        summed.done(summed.op("add", *gemms)),
    ):
        (source,) = islice(kernel_sources("product", body, ONE), 1)
        assert not source.tile["is_specialized"] and "warp_specialize" not in source.text
