"""Tests of the reference evaluator for element-wise ops."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from meshgen.ir.graph import DTYPES, TensorType
from tests.ops.one_op import BF16, INTS, normal, run


def test_bf16_rounds_to_nearest_even_after_every_op() -> None:
    x = np.array([1.0, 1.0, 256.0, 3.0], BF16)
    y = np.array([2**-8, 3 * 2**-8, 1.0, -0.0], BF16)  # ties: 1 + 2^-8 goes down to even, 1 + 3 2^-8 goes up
    assert run("add", x, y).tolist() == [1.0, 1 + 2**-6, 256.0, 3.0]


@pytest.mark.parametrize("dtype", INTS)
def test_integer_division_truncates_and_never_traps(dtype: str) -> None:
    kind = DTYPES[dtype]
    limits = np.iinfo(kind)
    signed = limits.min < 0
    x = np.array([7, -7, 7, -7, limits.min, 5, -5, 0] if signed else [7, 250, 0, 1, limits.max, 5, 9, 0], kind)
    y = np.array([2, 2, -2, -2, -1, 0, 0, 0] if signed else [2, 100, 3, 1, 1, 0, 0, 0], kind)
    quotient = [3, -3, -3, 3, limits.min, -1, -1, -1] if signed else [3, 2, 0, 1, limits.max] + [limits.max] * 3
    rest = [1, -1, 1, -1, 0, 5, -5, 0] if signed else [1, 50, 0, 0, 0, 5, 9, 0]
    assert run("divide", x, y).tolist() == quotient
    assert run("remainder", x, y).tolist() == rest


def test_float_remainder_has_the_sign_of_the_dividend() -> None:
    assert run("remainder", np.float32([5.5, -5.5]), np.float32([2, 2])).tolist() == [1.5, -1.5]


@pytest.mark.parametrize("dtype", INTS)
def test_shifts_past_the_width_give_zero_or_sign(dtype: str) -> None:
    width = DTYPES[dtype].itemsize * 8
    amounts = np.array([0, 1, width - 1, width, width + 3, 100]).astype(DTYPES[dtype])
    ones = np.full(6, -1, np.int64).astype(DTYPES[dtype])
    mask = (1 << width) - 1
    left = [(-1 << int(a)) & mask if a < width else 0 for a in amounts.tolist()]
    right = [mask >> int(a) if a < width else 0 for a in amounts.tolist()]

    def unsigned(x: np.ndarray[Any, Any]) -> list[int]:
        return [int(v) & mask for v in x.tolist()]

    assert unsigned(run("shift_left", ones, amounts)) == left
    assert unsigned(run("shift_right_logical", ones, amounts)) == right
    # the top bit is copied, for unsigned dtypes too
    assert unsigned(run("shift_right_arithmetic", ones, amounts)) == [mask] * 6


@pytest.mark.parametrize("dtype", INTS)
def test_mulhi_returns_upper_half_of_integer_product(dtype: str) -> None:
    kind, width = DTYPES[dtype], DTYPES[dtype].itemsize * 8
    low, high = (int(bound) for bound in (np.iinfo(kind).min, np.iinfo(kind).max))
    numbers = [low, low + 1, high, high - 1, high // 3, low // 3, 0, 1]
    x, y = (np.array(factor, kind) for factor in zip(*itertools.product(numbers, numbers), strict=True))
    expected = [(a * b) >> width for a, b in itertools.product(numbers, numbers)]
    assert [int(half) for half in run("mulhi", x, y)] == expected


def test_integer_power_handles_negative_exponents() -> None:
    x, y = np.int32([2, -2, 1, -1, -1, 3, 0]), np.int32([10, 3, -5, -5, -4, -1, 0])
    assert run("power", x, y).tolist() == [1024, -8, 1, -1, 1, 0, 1]


def test_compare_handles_nan_signed_zero_and_signedness() -> None:
    x, y = np.float32([np.nan, 0.0, 1.0]), np.float32([np.nan, -0.0, np.nan])
    table = {"EQ": [False, True, False], "NE": [True, False, True], "LT": [False] * 3, "GE": [False, True, False]}
    for direction, expected in table.items():
        assert run("compare", x, y, direction=direction, compare_type="FLOAT").tolist() == expected
    ordered = np.float32([-np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan])
    for dtype in (np.float32, np.float64, np.float16, BF16):
        chain = run(
            "compare", ordered[:-1].astype(dtype), ordered[1:].astype(dtype), direction="LT", compare_type="TOTALORDER"
        )
        assert chain.all()
    negative_nan = np.array([0xFFC00000], np.uint32).view(np.float32)
    assert run("compare", negative_nan, np.float32([-np.inf]), direction="LT", compare_type="TOTALORDER").all()
    assert run("compare", np.int8([-1]), np.int8([1]), direction="GT", compare_type="UNSIGNED").all()
    assert run("compare", np.int8([-1]), np.int8([1]), direction="LT", compare_type="SIGNED").all()


def test_convert_clamps_floats_and_wraps_integers() -> None:
    x = np.float32([np.nan, np.inf, -np.inf, 1e10, -1e10, 2.9, -2.9, 300])
    expected = {
        "i32": [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2, -2, 300],
        "ui8": [0, 255, 0, 255, 0, 2, 0, 255],
        "i64": [0, 2**63 - 1, -(2**63), 10**10, -(10**10), 2, -2, 300],
        "ui64": [0, 2**64 - 1, 0, 10**10, 0, 2, 0, 300],
        "i1": [True, True, True, True, True, True, True, True],
    }
    for dtype, values in expected.items():
        assert run("convert", x, results=[TensorType(x.shape, dtype)]).tolist() == values, dtype
    assert run("convert", np.int32([300, -1]), results=[TensorType((2,), "ui8")]).tolist() == [44, 255]
    assert run("convert", np.array([True, False]), results=[TensorType((2,), "bf16")]).tolist() == [1, 0]
    assert run("convert", np.float32(1 + 2**-8), results=[TensorType((), "bf16")]) == 1.0


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_convert_drops_the_imaginary_part(dtype: type) -> None:
    x = np.array([0, 1j, 1, -0.5 + 2j, np.nan * 1j], dtype)
    assert run("convert", x, results=[TensorType((5,), "i1")]).tolist() == (x.real != 0).tolist()
    assert run("convert", x[:4], results=[TensorType((4,), "i32")]).tolist() == [0, 0, 1, 0]


def test_rounding_sign_and_bit_counts_match_specification() -> None:
    x = np.float32([0.5, 1.5, 2.5, -0.5, 0.49999997, -2.5, -0.0])
    assert run("round_nearest_even", x).tolist() == [0, 2, 2, 0, 0, -2, 0]
    assert run("round_nearest_afz", x).tolist() == [1, 2, 3, -1, 0, -3, 0]
    assert np.signbit(run("sign", np.float32([-0.0])))[0] and np.isnan(run("sign", np.float32([np.nan])))[0]
    for dtype in INTS:
        width = DTYPES[dtype].itemsize * 8
        values = np.array([0, 1, 5, -1]).astype(DTYPES[dtype])
        assert run("popcnt", values).tolist() == [0, 1, 2, width]
        assert run("count_leading_zeros", values).tolist() == [width, width - 1, width - 3, 0]


def test_erf_and_erf_inv_match_scipy() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.linspace(-5, 5, 101)
    assert np.abs(run("erf", x) - special.erf(x)).max() <= 4 * np.finfo(np.float64).eps
    y = np.concatenate([np.linspace(-1, 1, 101), [1e-8, 0.9999999, -0.99999999]])
    inverse = special.erfinv(y)
    finite = np.isfinite(inverse)
    result = run("erf_inv", y)
    # near 1, erf_inv amplifies the rounding of its argument by the condition number
    slope = np.sqrt(np.pi) / 2 * np.exp(np.minimum(inverse**2, 40))
    bound = np.finfo(np.float64).eps * (8 * np.abs(inverse) + 8 * slope)
    assert (np.abs(result[finite] - inverse[finite]) <= bound[finite]).all()
    assert result[0] == -np.inf and result[100] == np.inf and np.isnan(run("erf_inv", np.float64([1.5])))[0]


def test_clamp_and_select_take_scalars() -> None:
    x = normal(3, 4)
    assert (run("clamp", np.float32(-0.5), x, np.float32(0.5)) == np.clip(x, -0.5, 0.5)).all()
    assert (run("select", np.bool_(False), x, -x) == -x).all()
    assert (run("select", x > 0, x, -x) == np.abs(x)).all()


def test_bitcast_changes_the_last_dim() -> None:
    x = np.arange(6, dtype=np.uint32).reshape(2, 3)
    bytes_ = run("bitcast_convert", x, results=[TensorType((2, 3, 4), "ui8")])
    assert (bytes_ == x.view(np.uint8).reshape(2, 3, 4)).all()
    assert (run("bitcast_convert", bytes_, results=[TensorType((2, 3), "ui32")]) == x).all()
    assert run("bitcast_convert", np.float32(1), results=[TensorType((), "i32")]) == 0x3F800000


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64"])
@pytest.mark.parametrize("op, reference", [("exponential", np.exp), ("tanh", np.tanh), ("log", np.log), ("cbrt", np.cbrt),
                                           ("logistic", lambda x: 1 / (1 + np.exp(-x))), ("rsqrt", lambda x: 1 / np.sqrt(x)),
                                           ("log_plus_one", np.log1p), ("exponential_minus_one", np.expm1), ("sine", np.sin)])  # fmt: skip
def test_elementwise_functions_are_within_a_few_ulp(op: str, reference: Any, dtype: str) -> None:
    x = np.abs(normal(64, seed=3)).astype(DTYPES[dtype])
    exact = reference(x.astype(np.float64))
    unit = {"f64": 2.0**-53, "f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}[dtype]
    unit = max(unit, 2.0**-52)  # the reference is computed in f64
    assert (np.abs(run(op, x).astype(np.float64) - exact) <= 6 * unit * np.maximum(np.abs(exact), 2**-14)).all()
