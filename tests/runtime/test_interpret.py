"""Tests of the interpreter with handwritten kernels: GPU numerics, memory checks, and no lasting changes to Triton."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from meshgen.errors import RuntimeFailure
from meshgen.ops.special_functions import erf

pytest.importorskip("triton")
from meshgen.runtime.interpret import InterpretedKernel

BF16 = np.dtype(ml_dtypes.bfloat16)
HEADER = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n"
ELEMENTWISE = (
    HEADER
    + """
@triton.jit
def half(x):
    return x * 0.5

@triton.jit
def kernel(a, b, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    x = tl.load(a + i, mask=keep, other=0.0)
    y = tl.load(b + i, mask=keep, other=0.0)
    tl.store(out + i, {expression}, mask=keep)
"""
)


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def elementwise(expression: str, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], dtype: Any) -> np.ndarray[Any, Any]:
    out = np.zeros(a.shape, dtype)
    kernel = InterpretedKernel(ELEMENTWISE.replace("{expression}", expression), "kernel")
    kernel.launch((-(-a.size // 64),), [a, b, out, a.size], {"BLOCK": 64})
    return out


def test_bf16_addition_rounds_to_nearest_even() -> None:
    a, b = normal(1000, dtype=BF16), normal(1000, seed=1, dtype=BF16)
    assert (elementwise("x + y", a, b, BF16) == a + b).all()
    ties = np.array([1.0, 1.0], BF16), np.array([2**-8, 3 * 2**-8], BF16)
    assert elementwise("x + y", *ties, BF16).tolist() == [1.0, 1 + 2**-6]


def test_interpreted_casts_round_and_saturate() -> None:
    wide = np.concatenate([normal(999), [np.inf]]).astype(np.float32)
    assert (elementwise("x", wide, wide, BF16) == wide.astype(BF16)).all()
    saturated = elementwise("(x * 1000).to(tl.float8e4nv)", wide, wide, ml_dtypes.float8_e4m3fn).astype(np.float32)
    exact = np.clip(wide * 1000, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32)
    assert (saturated == exact).all() and np.abs(saturated).max() == 448
    assert elementwise("x.to(tl.int32)", np.float32([2.9, -2.9, 1e20]), wide[:3], np.int32).tolist() == [
        2,
        -2,
        2**31 - 1,
    ]


def test_interpreted_functions_are_accurate() -> None:
    a, b = normal(100), normal(100, seed=1)
    unit = 2.0**-24
    for text, exact in {"tl.erf(x)": erf(a), "tl.exp(x)": np.exp(a.astype(np.float64)), "half(x)": a * 0.5,
                        "tl.where(x > y, x, y)": np.maximum(a, b),
                        "libdevice.tanh(x)": np.tanh(a.astype(np.float64))}.items():  # fmt: skip
        assert (
            np.abs(elementwise(text, a, b, np.float32) - exact) <= 4 * unit * np.maximum(np.abs(exact), 1e-30)
        ).all(), text


def test_interpreted_maximum_handles_nan_like_gpu() -> None:
    a, b = np.float32([np.nan, 1]), np.float32([2, np.nan])
    assert elementwise("tl.maximum(x, y)", a, b, np.float32).tolist() == [2, 1]
    assert np.isnan(elementwise("tl.maximum(x, y, propagate_nan=tl.PropagateNan.ALL)", a, b, np.float32)).all()


DOT = (
    HEADER
    + """
@triton.jit
def dot(a, b, out, m, n, k, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, k, BK):
        depth = start + tl.arange(0, BK)
        x = tl.load(a + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        y = tl.load(b + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        acc += tl.dot(x, y)
    tl.store(out + rows[:, None] * n + columns[None, :], acc.to(out.dtype.element_ty), mask=(rows[:, None] < m) & (columns[None, :] < n))
"""
)


@pytest.mark.parametrize("dtype, unit", [(BF16, 2.0**-8), (np.float32, 2.0**-24), (np.float16, 2.0**-11)])
def test_interpreted_dot_accumulates_in_f32(dtype: Any, unit: float) -> None:
    a, b = normal(20, 50, dtype=dtype), normal(50, 17, seed=1, dtype=dtype)
    out = np.zeros((20, 17), dtype)
    InterpretedKernel(DOT, "dot").launch((2, 2), [a, b, out, 20, 17, 50], {"BM": 16, "BN": 16, "BK": 32})
    wide, other = a.astype(np.float64), b.astype(np.float64)
    bound = (50 * 2.0**-24 + unit) * (np.abs(wide) @ np.abs(other))
    assert (np.abs(out.astype(np.float64) - wide @ other) <= bound).all()


ROWS = (
    HEADER
    + """
@triton.jit
def softmax(x, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + i, mask=i < n, other=float("-inf")).to(tl.float32)
    e = tl.exp(v - tl.max(v, axis=0))
    tl.store(out + row * n + i, (e / tl.sum(e, axis=0)).to(out.dtype.element_ty), mask=i < n)
"""
)


def test_interpreted_softmax_of_masked_rows_is_accurate() -> None:
    x = normal(5, 13, dtype=BF16)
    out = np.zeros((5, 13), np.float32)
    InterpretedKernel(ROWS, "softmax").launch((5,), [x, out, 13], {"BLOCK": 16, "UNUSED": 1})
    wide = x.astype(np.float64)
    exact = np.exp(wide - wide.max(1, keepdims=True))
    exact /= exact.sum(1, keepdims=True)
    # Rounding the difference d to f32 changes exp(d) by a relative |d| 2^-24. A few ulp and 13 additions are added.
    bound = (np.abs(wide - wide.max(1, keepdims=True)) + 13 + 8) * 2.0**-24 * exact
    assert (np.abs(out - exact) <= 2 * bound).all()


def test_interpreter_rejects_out_of_bounds_access() -> None:
    a = normal(10)
    kernel = InterpretedKernel(ELEMENTWISE.replace("{expression}", "x + y"), "kernel")
    with pytest.raises(RuntimeFailure, match=r"MG0604.*reads outside of 'a' \(54 of 64 elements\)"):
        kernel.launch((1,), [a, a.copy(), np.zeros(10, np.float32), 10**6], {"BLOCK": 64})


def test_interpreter_faults_are_diagnostics() -> None:
    with pytest.raises(RuntimeFailure, match="cannot be loaded"):
        InterpretedKernel("import triton\nraise ValueError('no')", "kernel")
    kernel = InterpretedKernel(ELEMENTWISE.replace("{expression}", "x.missing"), "kernel")
    a = normal(4)
    with pytest.raises(RuntimeFailure, match="missing"):
        kernel.launch((1,), [a, a, a.copy(), 4], {"BLOCK": 64})
    with pytest.raises(RuntimeFailure, match="takes 4 arguments, got 1"):
        kernel.launch((1,), [a], {"BLOCK": 64})
    with pytest.raises(RuntimeFailure, match="not contiguous"):
        kernel.launch((1,), [np.zeros((4, 4), np.float32)[:, 0], a, a, 4], {"BLOCK": 64})


def test_interpreter_restores_triton() -> None:
    import triton
    import triton.language as tl
    from triton.runtime import interpreter
    from triton.runtime.jit import JITFunction

    owners = (
        tl,
        tl.core,
        tl.math,
        tl.tensor,
        tl.standard,
        interpreter,
        interpreter.InterpreterBuilder,
        JITFunction,
        tl.dtype,
    )
    before = [dict(vars(owner)) for owner in owners]
    a = normal(4)
    elementwise("half(tl.sigmoid(x))", a, a, np.float32)
    with pytest.raises(RuntimeFailure):
        elementwise("x.missing", a, a, np.float32)
    for owner, old in zip(owners, before, strict=True):
        new = vars(owner)
        assert [k for k in new if k not in old or new[k] is not old[k]] == [], owner
    assert triton.__version__


def test_interpreted_kernel_still_compiles() -> None:
    triton = pytest.importorskip("triton")
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    kernel = InterpretedKernel(ROWS, "softmax")
    x = normal(1, 13)
    kernel.launch((1,), [x, np.zeros((1, 13), np.float32), 13], {"BLOCK": 16})
    source = ASTSource(
        kernel._function, {"x": "*fp32", "out": "*fp32", "n": "i32", "BLOCK": "constexpr"}, {"BLOCK": 16}
    )
    built = triton.compile(source, target=GPUTarget("cuda", 90, 32), options={"num_warps": 1, "enable_fp_fusion": True})
    assert built.asm["cubin"] and not math.isnan(float(x[0, 0]))


@pytest.mark.parametrize(("start", "verb"), [(-3, "reads"), (13, "reads"), (7, "reads"), (-1, "writes"), (6, "writes")])
def test_interpreter_rejects_access_to_adjacent_argument(start: int, verb: str) -> None:
    """The two arguments are adjacent in memory, so an out-of-bounds access to one of them hits the other."""
    memory = np.arange(30, dtype=np.float32)
    before, a, behind = memory[:10], memory[10:20], memory[20:]
    reads, writes = (f"a + {start} + i", "behind + i") if verb == "reads" else ("behind + i", f"a + {start} + i")
    source = f"""{HEADER}
@triton.jit
def kernel(before, a, behind):
    i = tl.arange(0, 8)
    tl.store({writes}, tl.load({reads}))
"""
    with pytest.raises(RuntimeFailure, match=rf"MG0604.*{verb} outside of 'a'"):
        InterpretedKernel(source, "kernel").launch((1,), [before, a, behind], {})


@pytest.mark.parametrize(("x", "by"), [(7, 3), (-7, 3), (7, -3), (-7, -3), (-2147483648, 3), (-1, 5), (-14, 7)])
def test_interpreted_integer_division_matches_device(x: int, by: int) -> None:
    source = f"""{HEADER}
@triton.jit
def kernel(a, out):
    x = tl.load(a)
    tl.store(out, x // {by})
    tl.store(out + 1, x % {by})
    tl.store(out + 2, x + 2147483647)
"""
    out = np.zeros(3, np.int32)
    InterpretedKernel(source, "kernel").launch((1,), [np.array([x], np.int32), out], {})
    quotient = abs(x) // abs(by) * (-1 if (x < 0) != (by < 0) else 1)
    assert out.tolist() == [quotient, x - quotient * by, (x + 2**32 - 1) % 2**32 - 2**31]


@pytest.mark.parametrize("scalar", [np.float32(3), np.array(3, np.float32)])
def test_interpreter_accepts_numpy_scalar(scalar: Any) -> None:
    source = HEADER + "@triton.jit\ndef kernel(a, out):\n    tl.store(out, tl.load(a) * 2)\n"
    out = np.zeros((), np.float32)
    InterpretedKernel(source, "kernel").launch((1,), [scalar, out], {})
    assert out == 6
