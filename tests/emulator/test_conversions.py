"""Tests of the PTX instruction `cvt`: rounding, saturation, NaN, and packed pairs of narrow floats."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.snippets import compute

RNG = np.random.default_rng(9)
FLOATS = {"f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16), "f32": np.dtype(np.float32), "f64": np.dtype(np.float64)}  # fmt: skip
NUMBERS = np.concatenate([RNG.standard_normal(40) * 1e3, [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, np.nan, np.inf, -np.inf, 3e9, -3e9, 1e30, -1e30, 127.5, -128.5, 255.5, 0.1, 2.0**31, 2.0**63, -(2.0**63), 65504, 1e5, 448, 1e-9]])  # fmt: skip


def number(value: float) -> float:
    return 0.0 if np.isnan(value) else value


@pytest.mark.parametrize("kind", ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"])
@pytest.mark.parametrize(
    ("mode", "function"), [("rzi", np.trunc), ("rni", np.rint), ("rmi", np.floor), ("rpi", np.ceil)]
)
def test_float_to_integer_conversion_saturates(kind: str, mode: str, function) -> None:
    dtype = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")
    x = NUMBERS.astype(np.float32)
    info = np.iinfo(dtype)
    nan = (info.min if kind[0] == "s" else 1 << 63) if dtype.itemsize == 8 else 0
    clipped = [max(info.min, min(info.max, int(function(v)) if np.isfinite(v) else (info.max if v > 0 else info.min))) if not np.isnan(v) else nan for v in x.astype(float)]  # fmt: skip
    results = compute(f"cvt.{mode}.{kind}.f32 %d, %a;", dtype, x)
    assert results.tolist() == clipped


@pytest.mark.parametrize("to", FLOATS)
@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
def test_integer_to_float_conversion_rounds_once(kind: str, to: str) -> None:
    dtype = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")
    info = np.iinfo(dtype)
    x = RNG.integers(info.min, info.max, 64, dtype=dtype, endpoint=True)
    x[:6] = [0, 1, info.max, info.min, 2**24 + 1, 2**25 + 3]
    results = compute(f"cvt.rn.{to}.{kind} %d, %a;", FLOATS[to], x)
    for result, integer in zip(results, x, strict=True):
        if np.isfinite(float(result)):
            sides = [np.nextafter(result, FLOATS[to].type(side)) for side in (-np.inf, np.inf)]
            error = (
                abs(int(float(result)) - int(integer))
                if abs(float(result)) >= 2**53
                else abs(float(result) - int(integer))
            )
            assert all(error <= abs(int(float(s)) - int(integer)) for s in sides if np.isfinite(float(s)))


@pytest.mark.parametrize(("to", "origin"), [("f16", "f32"), ("bf16", "f32"), ("f32", "f64"), ("f16", "f64"), ("bf16", "f64"), ("f64", "f32"), ("f32", "bf16"), ("f32", "f16")])  # fmt: skip
def test_float_to_float_conversion_matches_numpy(to: str, origin: str) -> None:
    with np.errstate(all="ignore"):
        x = NUMBERS.astype(FLOATS[origin])
        expected = x.astype(FLOATS[to])
    rounding = "" if FLOATS[to].itemsize > FLOATS[origin].itemsize else ".rn"
    results = compute(f"cvt{rounding}.{to}.{origin} %d, %a;", FLOATS[to], x)
    np.testing.assert_array_equal(results.astype(np.float64), expected.astype(np.float64))


def test_f64_to_bf16_conversion_rounds_once() -> None:
    """A first rounding to f32 would produce a tie, which a second one would round down to even."""
    x = np.full(32, 1 + 2.0**-8 + 2.0**-40)
    results = compute("cvt.rn.bf16.f64 %d, %a;", ml_dtypes.bfloat16, x)
    assert (results.astype(np.float64) == 1 + 2.0**-7).all()


@pytest.mark.parametrize("to", ["e4m3", "e5m2"])
def test_fp8_conversion_saturates(to: str) -> None:
    kind = {"e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2}[to]
    top = float(ml_dtypes.finfo(kind).max)
    a, b = NUMBERS.astype(np.float32), NUMBERS[::-1].astype(np.float32)
    results = compute(f"cvt.rn.satfinite.{to}x2.f32 %d, %a, %b;", np.uint16, a, b)
    with np.errstate(all="ignore"):
        low, high = (np.clip(x, -top, top).astype(kind).view(np.uint8).astype(np.uint16) for x in (b, a))
    np.testing.assert_array_equal(np.where(np.isnan(b), 0, results & 255), np.where(np.isnan(b), 0, low))
    np.testing.assert_array_equal(np.where(np.isnan(a), 0, results >> 8), np.where(np.isnan(a), 0, high))


def test_packed_bf16_conversion_round_trips() -> None:
    a, b = RNG.standard_normal((2, 32)).astype(np.float32)
    text = ".reg .b32 %x;\n.reg .b16 %lo, %hi;\ncvt.rn.bf16x2.f32 %x, %a, %b;\nmov.b32 {%lo, %hi}, %x;\ncvt.f32.bf16 %d, WHICH;"
    for which, source in (("%hi", a), ("%lo", b)):
        results = compute(text.replace("WHICH", which), np.float32, a, b)
        np.testing.assert_array_equal(results, source.astype(ml_dtypes.bfloat16).astype(np.float32))


def test_tf32_conversion_rounds_ties_away() -> None:
    x = np.array([1 + 2.0**-11, 1 + 2.0**-11 - 2.0**-23, -1 - 2.0**-11, np.inf] * 8, np.float32)
    results = compute("cvt.rna.tf32.f32 %d, %a;", np.float32, x)
    assert results[:4].tolist() == [1 + 2.0**-10, 1.0, -1 - 2.0**-10, np.inf]


def test_integer_conversion_truncates_extends_and_saturates() -> None:
    x = np.array([300, -300, 127, -128, 5, -1, 2**31 - 1, -(2**31)] * 4, np.int32)
    np.testing.assert_array_equal(compute("cvt.s64.s32 %d, %a;", np.int64, x), x.astype(np.int64))
    np.testing.assert_array_equal(compute("cvt.u64.u32 %d, %a;", np.uint64, x), x.view(np.uint32).astype(np.uint64))
    np.testing.assert_array_equal(compute("cvt.sat.s8.s32 %d, %a;", np.int8, x), np.clip(x, -128, 127))
    np.testing.assert_array_equal(compute("cvt.s16.s8 %d, %a;", np.int16, x.astype(np.int8)), x.astype(np.int8))
