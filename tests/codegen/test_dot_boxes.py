"""Tests of GEMM operands loaded by TMA descriptors, on the emulated GPU and in the interpreter."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import ONE, Body, emulated, launch, random_args
from code_of_text import code_of, proven

from meshgen.codegen.bounds.accesses import Given
from meshgen.codegen.building.build import build_kernels, request_of
from meshgen.codegen.triton_source import KernelSource, kernel_source
from meshgen.ir.graph import Graph
from meshgen.ops.evaluate.evaluator import evaluate

K = 520  # contracted size: long enough for TMA descriptors, and no multiple of a tile's k


def product(
    m: int, n: int, k: int = K, *, left: bool = False, right: bool = False, batch: int = 0, dtype: str = "bf16"
) -> Graph:
    """Return a GEMM. `left` and `right` transpose the operand's layout relative to x @ w."""
    lead = f"{batch}," if batch else ""
    rows = f"{lead}{k},{m}" if left else f"{lead}{m},{k}"
    b = Body(f"{dtype}[{rows}]", f"{dtype}[{lead}{f'{n},{k}' if right else f'{k},{n}'}]", name="product")
    row_dim = 1 if batch else 0
    contract = ((row_dim if left else row_dim + 1,), (row_dim + 1 if right else row_dim,))
    sides = ((0,), (0,)) if batch else ((), ())
    wide = "i32" if dtype == "i8" else "f32"
    x, w = b.inputs
    return b.done(b.dot(x, w, contract, sides, dtype=wide))


def agree(body: Graph, source: KernelSource) -> None:
    args = random_args(body)
    (expected,) = evaluate(body, args)
    for result in (launch(source, body, args)[0], emulated(source, body, args)[0]):
        np.testing.assert_allclose(result, expected, atol=2.0**-18 * K * np.abs(expected).max())


@pytest.mark.parametrize("left, right, batch", [(False, False, 0), (True, False, 0), (False, True, 0), (True, True, 2)])
@pytest.mark.usefixtures("two_multiprocessors")
def test_tma_gemm_matches_reference_for_all_layouts(left: bool, right: bool, batch: int) -> None:
    """Check GEMMs whose last tiles extend past the last row, column and k, where TMA fills zeros."""
    body = product(200, 136, left=left, right=right, batch=batch)
    source = kernel_source("product", body, ONE)
    assert source.text.count("make_tensor_descriptor") == 2 and "tl.load" not in source.text
    agree(body, source)


@pytest.mark.usefixtures("two_multiprocessors")
def test_persistent_program_computes_several_tiles() -> None:
    """Check a persistent kernel: one block fills a multiprocessor, and there are more tiles than blocks."""
    body = product(250, 500)
    source = kernel_source("product", body, ONE)
    assert source.grid == (2, 1, 1) and "range(tl.program_id(0), 4, PROGRAMS)" in source.text
    agree(body, source)


@pytest.mark.usefixtures("two_multiprocessors")
def test_sibling_gemms_share_one_selected_descriptor() -> None:
    b = Body(f"bf16[128,{K}]", f"bf16[{K},64]", f"bf16[{K},64]", name="siblings")
    x, v, w = b.inputs
    body = b.done(*(b.dot(x, rhs, ((1,), (0,)), dtype="f32") for rhs in (v, w)))
    source = kernel_source("siblings", body, ONE)
    assert "make_tensor_descriptor(right_ptr" in source.text
    args = random_args(body)
    for result, expected in zip(emulated(source, body, args), evaluate(body, args), strict=True):
        np.testing.assert_allclose(result, expected, atol=2.0**-18 * K * np.abs(expected).max())


@pytest.mark.parametrize("body, count", [
    (product(2048, 2048, 504), 0),  # small contracted size
    (product(2048, 2048, 1001), 1),  # rows of x are not aligned
    (product(2048, 2050, 1001), 0),
    (product(2048, 2048, 1024, dtype="f32"), 0),  # full-precision f32 does not use tensor cores
    (product(2048, 2048, 1024, right=True, dtype="i8"), 2),
])  # fmt: skip
def test_operands_without_tma_support_are_loaded_by_pointers(body: Graph, count: int) -> None:
    assert kernel_source("product", body, ONE).text.count("make_tensor_descriptor") == count
    assert "make_tensor_descriptor" not in kernel_source("product", body, ONE, "cuda:sm_80").text


@pytest.mark.parametrize("clamp, inside", [(10, True), (11, False)])
def test_descriptor_with_clamped_start_is_proven_by_its_end(clamp: int, inside: bool) -> None:
    text = f"""def f(x_ptr, s_ptr, e_ptr):
    start = tl.minimum(tl.maximum(tl.load(s_ptr).to(tl.int32), 0), {clamp})
    end = tl.minimum(tl.maximum(tl.load(e_ptr).to(tl.int32), 0), {clamp})
    b = tl.make_tensor_descriptor(x_ptr + start * 16, [end - start, 16], [16, 1], [8, 16])
"""
    facts = Given({"x_ptr": 160, "s_ptr": 1, "e_ptr": 1}, {}, 1, {})
    assert proven(code_of(text, "f"), facts) == [True, True, inside]


def test_main_loop_loads_only_by_tma() -> None:
    body = product(8192, 4096, 4096)
    source = kernel_source("product", body, ONE)
    (built,) = build_kernels([request_of("product", source, body)], ["sm_90"]).values()
    counts = built.instructions
    assert counts["UTMALDG"] and counts["HGMMA"] and "LDGSTS" not in counts and "LDG" not in counts
    assert built.spill_bytes == 0 and built.metadata["global_scratch_size"]


@pytest.mark.parametrize(
    "sizes, inside",
    [
        ("[8, 16]", True),
        ("[9, 16]", False),
        ("[8, 17]", False),
        ("[n, 16]", True),
        ("[n + 1, 16]", False),
        ("[y, 16]", False),
    ],
)
def test_descriptor_is_proven_only_if_in_bounds(sizes: str, inside: bool) -> None:
    """Check descriptors whose shape contains `n`, which is at most 8, or `y`, about which nothing is known."""
    text = f"def f(x_ptr, n):\n    b = tl.make_tensor_descriptor(x_ptr + 32, {sizes}, [16, 1], [8, 16])\n"
    assert proven(code_of(text, "f"), Given({"x_ptr": 160}, {"n": 9}, 1, {})) == [inside]


@pytest.mark.parametrize("m, n", [(1, 136), (136, 1), (1, 1)])
@pytest.mark.parametrize("k", [K, 40])
def test_vector_operands_are_zero_padded_tma_tiles(m: int, n: int, k: int) -> None:
    """Check operands of one row, and of one column if its elements are contiguous.

    Short operands, and all operands on sm_80, are loaded through pointers instead.
    """
    body = product(m, n, k)
    source = kernel_source("product", body, ONE)
    assert source.text.count("make_tensor_descriptor") == (2 if k == K else 0)
    agree(body, source)
    agree(body, kernel_source("product", body, ONE, "cuda:sm_80"))


@pytest.mark.parametrize("k", [K, 640])
@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.usefixtures("two_multiprocessors")
def test_left_operand_is_computed_from_tma_and_pointer_loads(dtype: str, k: int) -> None:
    """Check a left operand with row factors and column shifts.

    Its exponentials past the last k are not zero and need a mask.
    """
    b = Body(f"{dtype}[136,{k}]", f"bf16[{k},72]", "bf16[136]", f"bf16[{k}]", name="product")
    x, w, scale, shift = b.inputs
    x = x if dtype == "bf16" else b.op("convert", x, to=f"bf16[136,{k}]")
    rows = b.op("multiply", b.op("exponential", x), b.wide(scale, x, (0,)))
    body = b.done(b.dot(b.op("add", rows, b.wide(shift, x, (1,))), w, ((1,), (0,)), dtype="f32"))
    source = kernel_source("product", body, ONE)
    assert source.text.count("make_tensor_descriptor") == 2
    args = random_args(body)
    (expected,) = evaluate(body, args)
    for result in (launch(source, body, args)[0], emulated(source, body, args)[0]):
        np.testing.assert_allclose(result, expected, atol=2.0**-7 * np.abs(expected).max())
