"""Tests of element-wise ops on dtypes below 16 bits, subnormal numbers and other corner cases."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest

from meshgen.ir.graph import DTYPES, TensorType, is_float
from meshgen.ops.evaluate.elementwise import convert, total_order
from tests.ops.one_op import run

NARROW = [name for name, kind in DTYPES.items() if kind.itemsize == 1 and name not in ("i1", "i8", "ui8")]


def same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))


@pytest.mark.parametrize("source", NARROW)
@pytest.mark.parametrize("target", NARROW)
def test_narrow_dtypes_convert_to_each_other(source: str, target: str) -> None:
    """A conversion keeps values that both dtypes represent. NaN becomes NaN, or 0 in an integer dtype."""
    shared_values = [
        n for n in (0.0, 1.0, 2.0) if all(float(np.float32(n).astype(DTYPES[t])) == n for t in (source, target))
    ]
    assert [
        float(n) for n in convert(np.array(shared_values, np.float32).astype(DTYPES[source]), target)
    ] == shared_values
    if is_float(source):
        nan = float(convert(np.array(np.nan, DTYPES[source]), target))
        assert math.isnan(nan) if is_float(target) else nan == 0


@pytest.mark.parametrize("dtype", [name for name in NARROW if is_float(name)])
def test_total_order_of_narrow_floats_is_numeric(dtype: str) -> None:
    """FNUZ dtypes encode NaN with the sign bit set, so it sorts before all numbers."""
    all_values = np.arange(256).astype(np.uint8).view(DTYPES[dtype])
    ranked = all_values[np.argsort(total_order(all_values), kind="stable")].astype(np.float32)
    numbers = ranked[~np.isnan(ranked)]
    assert (np.diff(numbers) >= 0).all() and len(numbers) > 200
    assert np.isnan(ranked[0]) == bool(
        np.signbit(all_values.astype(np.float32)[np.isnan(all_values.astype(np.float32))]).any()
    )


def test_top_k_sorts_unsigned_floats() -> None:
    x = np.array([0.5, 4, 1, 2], ml_dtypes.float8_e8m0fnu)
    results = [TensorType((2,), "f8E8M0FNU"), TensorType((2,), "i32")]
    values, indices = run("top_k", x, k=2, results=results)
    assert values.astype(float).tolist() == [4, 2] and indices.tolist() == [1, 3]


def test_reduce_precision_handles_subnormals() -> None:
    """Subnormal numbers lose as many mantissa bits as normal ones. With fewer exponent bits, they become 0."""
    x = np.array([71362, 3], np.int32).view(np.float32)
    assert run("reduce_precision", x, exponent_bits=8, mantissa_bits=10).view(np.int32).tolist() == [9 << 13, 0]
    assert run("reduce_precision", x, exponent_bits=7, mantissa_bits=10).tolist() == [0, 0]
    least = np.array([1, 2, 3], np.uint8).view(ml_dtypes.float8_e5m2)
    assert run("reduce_precision", least, exponent_bits=5, mantissa_bits=2).view(np.uint8).tolist() == [1, 2, 3]


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_reduce_precision_to_no_mantissa_rounds_ties_to_even_exponent(dtype: str) -> None:
    x = np.array([1.0, 1.25, 1.5, 1.75, 3.0, 3.5, 6.0, 12.0, -1.5, -3.0, 0.75]).astype(DTYPES[dtype])
    rounded = run("reduce_precision", x, exponent_bits=5, mantissa_bits=0).astype(np.float64)
    assert rounded.tolist() == [1.0, 1.0, 2.0, 2.0, 2.0, 4.0, 8.0, 8.0, -2.0, -2.0, 0.5]


def test_digamma_is_accurate_near_a_pole() -> None:
    assert run("digamma", np.array([-1e-40, -1e-10])) == pytest.approx([1e40, 1e10], rel=1e-9)


PACKED = [
    ("i4", (2, 4), "f16", [0x4321, 0xF00D]), ("ui2", (4,), "i8", 0x1B), ("ui4", (3, 2), "i8", [0x10, 0x7F, -1]),
    ("i4", (3, 2), "i2", None), ("i2", (2, 2), "ui4", [0x1, 0xE]),
]  # fmt: skip


@pytest.mark.parametrize(("thin", "shape", "wide", "pattern"), PACKED, ids=lambda value: str(value))
def test_bitcast_packs_narrow_elements_from_lowest_bits(
    thin: str, shape: tuple[int, ...], wide: str, pattern: object
) -> None:
    jax = pytest.importorskip("jax")
    names = {"i2": "int2", "i4": "int4", "ui2": "uint2", "ui4": "uint4", "i8": "int8", "f16": "float16"}
    if pattern is None:  # the target is narrower: each element is split instead of packed
        x = np.arange(-3, 3).reshape(shape).astype(DTYPES[thin])
        result = TensorType((*shape, 2), wide)
    else:
        packed = np.array(pattern).astype(DTYPES[wide if wide != "f16" else "ui16"]).view(DTYPES[wide])
        x = np.asarray(jax.lax.bitcast_convert_type(packed, names[thin]))
        result = TensorType(packed.shape, wide)
        assert x.shape == shape
        unpacked = run("bitcast_convert", packed, results=[TensorType(shape, thin)])
        assert unpacked.astype(int).tolist() == x.astype(int).tolist()
    cast = run("bitcast_convert", x, results=[result])
    expected = np.asarray(jax.lax.bitcast_convert_type(x, names[wide]))
    assert cast.view(np.uint8).tolist() == expected.view(np.uint8).tolist()
