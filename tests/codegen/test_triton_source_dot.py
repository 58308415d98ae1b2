"""Tests of generated GEMM kernels against the NumPy reference."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import ONE, Body, check, launch, random_args

from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Module, Value
from meshgen.mesh import make_mesh
from meshgen.ops.precision import with_precision


def gelu(b: Body, x: Value) -> Value:
    cube = b.op("multiply", b.op("multiply", x, x), x)
    inner = b.op("multiply", b.splat(0.7978845608, x), b.op("add", x, b.op("multiply", b.splat(0.044715, x), cube)))
    return b.op("multiply", b.op("multiply", x, b.splat(0.5, x)), b.op("add", b.op("tanh", inner), b.splat(1.0, x)))


@pytest.mark.parametrize(
    "m, k, n, dtype",
    [
        *((*sizes, dtype) for dtype in ("bf16", "f32", "f64")
          for sizes in ((5, 7, 9), (1, 33, 1), (70, 20, 40), (16, 64, 32), (1, 1, 1), (3, 1, 2), (130, 65, 70))),
        (130, 65, 70, "f16"),
    ],
)  # fmt: skip
def test_gemms_of_any_size_match_reference(m: int, k: int, n: int, dtype: str) -> None:
    b = Body(f"{dtype}[{m},{k}]", f"{dtype}[{k},{n}]")
    check(b.done(b.dot(*b.inputs, ((1,), (0,)))), length=k, ulps=8 * k**0.5)


@pytest.mark.parametrize("kinds", [("f32", "f32"), ("f32", "bf16"), ("f16", "f32")], ids=",".join)
@pytest.mark.parametrize(
    "precision, option", [("default", "tf32"), ("high", "tf32x3"), ("highest", "ieee")], ids=["tf32", "tf32x3", "ieee"]
)
def test_gemms_have_the_requested_precision(precision: str, option: str, kinds: tuple[str, str]) -> None:
    """Check GEMMs of one f32 operand and one narrower operand: the f32 operand keeps all of its bits."""
    b = Body(f"{kinds[0]}[70,96]", f"{kinds[1]}[96,40]")
    y = b.dot(*b.inputs, ((1,), (0,)), dtype="f32")
    body = with_precision(Module(ONE, b.done(y)), precision).graph
    source = check(body, length=96, ulps=8 * 96**0.5)
    assert f'input_precision="{option}"' in source.text


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_bias_gelu_and_residual_are_fused_as_epilogue(dtype: str) -> None:
    b = Body(f"{dtype}[2,9,24]", f"{dtype}[24,36]", f"{dtype}[36]", f"{dtype}[2,9,36]")
    x, w, bias, residual = b.inputs
    h = b.dot(x, w, ((2,), (0,)))
    h = b.op("add", h, b.wide(bias, h, (2,)))
    source = check(b.done(b.op("add", gelu(b, h), residual), h), length=24, ulps=40)
    assert source.text.count("tl.dot(") == 1


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_masked_attention_scores_match_reference(dtype: str) -> None:
    b = Body(f"{dtype}[2,17,3,8]", f"{dtype}[2,17,3,8]")
    q, k = b.inputs
    scores = b.dot(q, k, ((3,), (3,)), ((0, 2), (0, 2)))
    scaled = b.op("multiply", scores, b.splat(0.25, scores))
    i, j = (b.op("iota", to="i32[17,17]", dim=d) for d in (0, 1))
    mask = b.op("compare", i, j, to="i1[17,17]", direction="GE", compare_type="SIGNED")
    wide = b.op("broadcast_in_dim", mask, to="i1[2,3,17,17]", dims=(2, 3))
    check(b.done(b.op("select", wide, scaled, b.splat(-1e4, scaled))), length=8)


def test_gemm_operands_are_read_through_index_maps() -> None:
    b = Body("f32[4,3,10,6]", "f32[24,5]")
    x, w = b.inputs
    transposed = b.op("transpose", x, perm=(0, 2, 1, 3))
    flat = b.op("reshape", transposed, to="f32[40,18]")
    part = b.op("slice", w, start=(2, 0), limit=(20, 5), stride=(1, 1))
    y = b.dot(flat, part, ((1,), (0,)))
    z = b.op("transpose", b.op("reshape", y, to="f32[4,10,5]"), perm=(0, 2, 1))
    source = check(b.done(z), length=18, ulps=40)
    assert source.text.count("tl.load(") == 2


def test_reordered_contracted_dims_are_loaded_contiguously() -> None:
    b = Body("bf16[2,16,4,8]", "bf16[4,8,24]")
    x, w = b.inputs
    source = check(b.done(b.dot(x, w, ((3, 2), (1, 0)))), length=32)
    assert "%" not in source.text.split("for start")[1].split("tl.dot")[0]


def test_padding_of_contracted_dim_is_masked_in_the_load() -> None:
    mesh = make_mesh({"x": 4})
    b = Body("f32[5,3]", "f32[3,6]")
    x, w = b.inputs
    masked = b.op("mask_padding", x, to="f32[5,3]", dim=1, axes=("x",), size=10, fill=0.0)
    masked_weights = b.op("mask_padding", w, to="f32[3,6]", dim=0, axes=("x",), size=10, fill=0.0)
    body = b.done(b.dot(masked, masked_weights, ((1,), (0,))))
    source = kernel_source("dot", body, mesh)
    a, c = random_args(body)
    a[:, 1:], c[1:] = np.nan, np.nan  # the last device owns one row
    (result,) = launch(source, body, [a, c], {("x",): 3})
    np.testing.assert_allclose(result, a[:, :1] @ c[:1], atol=1e-5)


def test_gemm_with_computed_left_operand_matches_reference() -> None:
    b = Body("f32[20,12]", "bf16[12,8]")
    x, w = b.inputs
    narrow = b.op("convert", b.op("multiply", x, b.splat(0.5, x)), to="bf16[20,12]")
    check(b.done(b.dot(narrow, w, ((1,), (0,)), dtype="f32")), length=12, ulps=64)


@pytest.mark.parametrize("dtype", ["i32", "i64", "i8"])
def test_integer_gemms_match_reference(dtype: str) -> None:
    b = Body(f"{dtype}[9,5]", f"{dtype}[5,7]")
    check(b.done(b.dot(*b.inputs, ((1,), (0,)), dtype="i32" if dtype == "i8" else dtype)))


def test_outer_products_and_vector_dots_match_reference() -> None:
    b = Body("f32[5]", "f32[7]")
    check(b.done(b.dot(*b.inputs, ((), ()))))
    b = Body("f32[40]", "f32[40]")
    check(b.done(b.dot(*b.inputs, ((0,), (0,)))), length=40, ulps=16)
    b = Body("f32[3,40]", "f32[40]")
    check(b.done(b.dot(*b.inputs, ((1,), (0,)))), length=40, ulps=16)


def test_gemm_of_array_with_itself_matches_reference() -> None:
    b = Body("f32[6,40]")
    x = b.inputs[0]
    check(b.done(b.dot(x, x, ((1,), (1,)))), length=40, ulps=40)


def test_gemm_of_many_grouped_tiles_matches_reference() -> None:
    b = Body("bf16[300,32]", "bf16[32,140]")
    source = check(b.done(b.dot(*b.inputs, ((1,), (0,)))), length=32)
    assert source.grid[0] > 8


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
def test_dots_of_one_left_operand_share_a_loop(dtype: str) -> None:
    b = Body(f"{dtype}[2,9,24]", *[f"{dtype}[24,3,8]"] * 3)
    x, *weights = b.inputs
    source = check(b.done(*(b.dot(x, w, ((2,), (0,))) for w in weights)), length=24, ulps=16)
    assert source.text.count("tl.dot(") == 1
