"""Tests of the emulated GPU's arithmetic: it matches exact arithmetic in Python, also where PTX differs from NumPy."""

from __future__ import annotations

from fractions import Fraction

import ml_dtypes
import numpy as np
import pytest

from tests.emulator.snippets import compute

RNG = np.random.default_rng(7)
SPECIAL = np.array([0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 1e-40, -1e-40, 3e38, -3e38, 2.0**-126, 0.1, 7, 1e20, 1e-20], np.float32)  # fmt: skip


def pairs() -> tuple[np.ndarray, np.ndarray]:
    """Return two arrays that contain every pair of special values."""
    a, b = np.meshgrid(SPECIAL, SPECIAL)
    return a.ravel(), b.ravel()


def wild(count: int, spread: int = 30) -> np.ndarray:
    """Return f32 values of many magnitudes with random low bits."""
    return (RNG.standard_normal(count) * 2.0 ** RNG.integers(-spread, spread, count)).astype(np.float32)


def nearest32(value: Fraction) -> np.float32:
    """Return the f32 nearest to an exact value by exact comparison with its neighbors. Ties go to the even one."""
    guess = np.float32(float(value))
    neighbors = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    even = [int(np.float32(x).view(np.uint32)) & 1 for x in neighbors]
    return min(zip(neighbors, even, strict=True), key=lambda pair: (abs(Fraction(float(pair[0])) - value), pair[1]))[0]


def test_fma_rounds_once() -> None:
    """Some f64 results here are ties between two f32 numbers, while the exact results are not."""
    a, b, c = wild(512), wild(512), wild(512)
    a[:3], b[:3], c[:3] = 1 + 2.0**-12, 1 - 2.0**-12, [2.0**-60, -(2.0**-60), 1.0]
    a[3:6], b[3:6], c[3:6] = 1 + 2.0**-23, 1 + 2.0**-23, [2.0**60, 2.0**24, -1.0]
    a[6:9], b[6:9], c[6:9] = 2.0**-80, [2.0**-60, 3 * 2.0**-60, 2.0**-69], [2.0**-149, 2.0**-148, 2.0**-127]
    results = compute("fma.rn.f32 %d, %a, %b, %c;", np.float32, a, b, c)
    expected = [nearest32(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))) for x, y, z in zip(a, b, c, strict=True)]  # fmt: skip
    np.testing.assert_array_equal(results, np.array(expected))


def test_fma_near_tie_is_rounded_correctly() -> None:
    """1 + 2^-24 is halfway between two f32 numbers. A term too small for f64 decides the direction of rounding."""
    one, tiny = np.float32(1), np.float32(2.0**-80)
    a = np.full(32, 2.0**-24, np.float32)
    b = np.full(32, one)
    np.testing.assert_array_equal(compute("fma.rn.f32 %d, %a, %b, %c;", np.float32, a, b, b), 1)
    text = "fma.rn.f32 %d, %a, %b, %c;"
    a, b = np.full(32, np.float32(1 + 2.0**-12)), np.full(32, np.float32(1 + 2.0**-12))
    exact = Fraction(float(a[0])) * Fraction(float(b[0]))
    for addend in (tiny, -tiny):
        results = compute(text, np.float32, a, b, np.full(32, addend))
        assert results[0] == nearest32(exact + Fraction(float(addend)))


@pytest.mark.parametrize("mode", ["rn", "rz", "rm", "rp"])
def test_add_supports_directed_rounding(mode: str) -> None:
    a, b = wild(256, 20), wild(256, 20)
    results = compute(f"add.{mode}.f32 %d, %a, %b;", np.float32, a, b)
    for x, y, result in zip(a, b, results, strict=True):
        exact, value = Fraction(float(x)) + Fraction(float(y)), Fraction(float(result))
        assert {"rn": True, "rz": abs(value) <= abs(exact), "rm": value <= exact, "rp": value >= exact}[mode]
        assert abs(value - exact) <= Fraction(float(np.spacing(abs(result)))) and (
            mode != "rn" or result == nearest32(exact)
        )


def test_ftz_flushes_subnormal_operands_and_results() -> None:
    a, b = pairs()
    with np.errstate(all="ignore"):
        plain = compute("mul.f32 %d, %a, %b;", np.float32, a, b)
        np.testing.assert_array_equal(plain, a * b)
        flush = (
            np.where(np.abs(a) < 2.0**-126, np.copysign(np.float32(0), a), a),
            np.where(np.abs(b) < 2.0**-126, np.copysign(np.float32(0), b), b),
        )
        expected = flush[0] * flush[1]
    expected = np.where(np.abs(expected) < 2.0**-126, np.copysign(np.float32(0), expected), expected)
    results = compute("mul.ftz.f32 %d, %a, %b;", np.float32, a, b)
    np.testing.assert_array_equal(results, expected)
    np.testing.assert_array_equal(np.signbit(results), np.signbit(expected))


def test_min_and_max_handle_nan_and_signed_zero() -> None:
    a, b = pairs()
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(compute("max.f32 %d, %a, %b;", np.float32, a, b), np.fmax(a, b))
        np.testing.assert_array_equal(compute("max.NaN.f32 %d, %a, %b;", np.float32, a, b), np.maximum(a, b))
        np.testing.assert_array_equal(compute("min.NaN.f32 %d, %a, %b;", np.float32, a, b), np.minimum(a, b))
    zero, minus = np.zeros(32, np.float32), -np.zeros(32, np.float32)
    for left, right in ((zero, minus), (minus, zero)):
        assert not np.signbit(compute("max.f32 %d, %a, %b;", np.float32, left, right)).any()
        assert np.signbit(compute("min.f32 %d, %a, %b;", np.float32, left, right)).all()


def test_relu_min_and_max_clamp_negative_results() -> None:
    a, b = np.array([-3, 5, -7, 2**31 - 1] * 8, np.int32), np.array([4, -1, -2, 9] * 8, np.int32)
    np.testing.assert_array_equal(compute("min.relu.s32 %d, %a, %b;", np.int32, a, b), [0, 0, 0, 9] * 8)
    np.testing.assert_array_equal(compute("max.relu.s32 %d, %a, %b;", np.int32, a, b), [4, 5, 0, 2**31 - 1] * 8)


def test_integer_division_truncates_and_handles_zero() -> None:
    a = np.array([7, -7, 7, -7, -(2**31), 5, 0, 2**31 - 1] * 4, np.int32)
    b = np.array([2, 2, -2, -2, -1, 0, 3, -(2**31)] * 4, np.int32)
    assert compute("div.s32 %d, %a, %b;", np.int32, a, b)[:8].tolist() == [3, -3, -3, 3, -(2**31), -1, 0, 0]
    assert compute("rem.s32 %d, %a, %b;", np.int32, a, b)[:8].tolist() == [1, -1, 1, -1, 0, 5, 0, 2**31 - 1]
    wide = np.array([2**63, 2**64 - 1] * 16, np.uint64)
    assert compute("div.u64 %d, %a, %b;", np.uint64, wide, np.full(32, 3, np.uint64))[1] == (2**64 - 1) // 3


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64", "s16", "u16"])
def test_integer_multiplication_returns_low_high_and_wide(kind: str) -> None:
    dtype = np.dtype(f"{'i' if kind[0] == 's' else 'u'}{int(kind[1:]) // 8}")
    info = np.iinfo(dtype)
    a, b = (RNG.integers(info.min, info.max, 64, dtype=dtype, endpoint=True) for _ in range(2))
    exact = [int(x) * int(y) for x, y in zip(a, b, strict=True)]
    bits = 8 * dtype.itemsize

    def wrapped(value: int) -> int:
        return (value - info.min) % (1 << bits) + info.min

    assert compute(f"mul.lo.{kind} %d, %a, %b;", dtype, a, b).tolist() == [wrapped(v) for v in exact]
    assert compute(f"mul.hi.{kind} %d, %a, %b;", dtype, a, b).tolist() == [wrapped(v >> bits) for v in exact]
    if bits < 64:
        wide = np.dtype(f"{dtype.kind}{2 * dtype.itemsize}")
        assert compute(f"mul.wide.{kind} %d, %a, %b;", wide, a, b).tolist() == exact


def test_carry_instructions_compute_64_bit_sums() -> None:
    a, b = (RNG.integers(0, 2**64, 64, dtype=np.uint64) for _ in range(2))
    text = """.reg .b32 %al, %ah, %bl, %bh, %dl, %dh;
        mov.b64 {%al, %ah}, %a;
        mov.b64 {%bl, %bh}, %b;
        OP.cc.u32 %dl, %al, %bl;
        OPc.u32 %dh, %ah, %bh;
        mov.b64 %d, {%dl, %dh};"""
    np.testing.assert_array_equal(compute(text.replace("OP", "add"), np.uint64, a, b), a + b)
    np.testing.assert_array_equal(compute(text.replace("OP", "sub"), np.uint64, a, b), a - b)


def test_bf16_fma_rounds_once() -> None:
    """bf16 products and sums are exact in f64, and then rounded once."""
    kind = ml_dtypes.bfloat16
    a, b, c = (wild(256, 8).astype(kind) for _ in range(3))
    results = compute("fma.rn.bf16 %d, %a, %b, %c;", kind, a, b, c).astype(np.float64)
    exact = [Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z)) for x, y, z in zip(a, b, c, strict=True)]
    for result, exact_value in zip(results, exact, strict=True):
        neighbors = [float(np.nextafter(kind(result), kind(side))) for side in (-np.inf, np.inf)]
        assert all(abs(Fraction(result) - exact_value) <= abs(Fraction(other) - exact_value) for other in neighbors)


@pytest.mark.parametrize(
    ("text", "function"),
    [("ex2.approx.f32 %d, %a;", np.exp2), ("lg2.approx.f32 %d, %a;", lambda x: np.log2(np.abs(x))),
     ("rsqrt.approx.f32 %d, %a;", lambda x: 1 / np.sqrt(np.abs(x))), ("sqrt.rn.f32 %d, %a;", lambda x: np.sqrt(np.abs(x))),
     ("rcp.rn.f32 %d, %a;", lambda x: 1 / x), ("tanh.approx.f32 %d, %a;", np.tanh)],
)  # fmt: skip
def test_math_functions_are_within_half_ulp(text: str, function) -> None:
    x = wild(256, 6)
    if "ex2" not in text and "rcp" not in text and "tanh" not in text:
        x = np.abs(x)
    wide = function(x.astype(np.float64))
    results = compute(text, np.float32, x)
    assert (np.abs(results - wide) <= 0.5000001 * np.spacing(np.abs(results)) + 2.0**-149).all()


def test_approximate_division_gives_zero_for_huge_divisors() -> None:
    """PTX ISA: `div.approx.f32` returns 0 for 2^126 < |b| < 2^128; `div.full.f32` has no such range."""
    a, b = np.full(32, np.float32(2.0**127)), np.full(32, np.float32(2.0**127))
    assert not compute("div.approx.f32 %d, %a, %b;", np.float32, a, b).any()
    assert (compute("div.full.f32 %d, %a, %b;", np.float32, a, b) == 1).all()
