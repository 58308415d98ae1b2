"""Tests of bit-level kernels: bit counts, mulhi, total order, reduced precision, bitcasts to other widths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.ir.graph import DTYPES
from tests.codegen.bodies import Body, check

pytestmark = pytest.mark.usefixtures("one_element_per_thread")
Array = np.ndarray[Any, Any]
SPECIAL = np.array([0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, -np.nan, 2.0**-14, 2.0**-24, 65504.0, -3.0])


def random_bits(dtype: str, *shape: int) -> Array:
    """Return random bit patterns of a dtype, starting with special values."""
    kind = np.dtype(DTYPES[dtype])
    values = (
        np.frombuffer(np.random.default_rng(1).bytes(int(np.prod(shape)) * kind.itemsize), kind).reshape(shape).copy()
    )
    if kind.kind not in "iu":
        values.reshape(-1)[: len(SPECIAL)] = SPECIAL.astype(kind)
        with np.errstate(invalid="ignore"):
            values[np.isnan(values)] = np.nan  # some random NaN are signaling
    else:
        values.reshape(-1)[:5] = np.array([0, 1, -1, -(2 ** (8 * kind.itemsize - 1)), 2 ** (8 * kind.itemsize - 1) - 1], object).astype(np.int64).astype(kind)  # fmt: skip
    return values


@pytest.mark.parametrize("dtype", ["i64", "ui64", "i32", "ui8"])
def test_bit_counts_match_reference(dtype: str) -> None:
    b = Body(f"{dtype}[90]", name="counted")
    (x,) = b.inputs
    graph = b.done(b.op("popcnt", x), b.op("count_leading_zeros", x))
    check(graph, args=[random_bits(dtype, 90)])


@pytest.mark.parametrize("dtype", ["i64", "ui64", "i32"])
def test_mulhi_matches_reference(dtype: str) -> None:
    b = Body(f"{dtype}[90]", f"{dtype}[90]", name="product")
    graph = b.done(b.op("mulhi", *b.inputs))
    x = random_bits(dtype, 90)
    check(graph, args=[x, x[::-1].copy()])


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16", "f16"])
@pytest.mark.parametrize("direction", ["LT", "GE", "EQ"])
def test_total_order_comparisons_match_reference(dtype: str, direction: str) -> None:
    b = Body(f"{dtype}[12,12]", f"{dtype}[12,12]", name="ordered")
    graph = b.done(b.op("compare", *b.inputs, to="i1[12,12]", direction=direction, compare_type="TOTALORDER"))
    x = np.broadcast_to(SPECIAL.astype(DTYPES[dtype]), (12, 12))
    check(graph, args=[x.copy(), x.T.copy()])


@pytest.mark.parametrize(("dtype", "formats"), [("f32", [(5, 10), (8, 0), (8, 7), (4, 3), (11, 52)]), ("f64", [(8, 23), (11, 20)]),
                                                ("f16", [(5, 2), (3, 10), (5, 0)]), ("bf16", [(8, 3), (5, 7)])])  # fmt: skip
def test_reduce_precision_matches_reference(dtype: str, formats: list[tuple[int, int]]) -> None:
    b = Body(f"{dtype}[4000]", name="rounded")
    rounded = [b.op("reduce_precision", b.inputs[0], exponent_bits=e, mantissa_bits=m) for e, m in formats]
    check(b.done(*rounded), args=[random_bits(dtype, 4000)], ulps=0)


@pytest.mark.parametrize(
    ("source", "target"),
    [("f32[5,7]", "ui8[5,7,4]"), ("f64[30]", "ui32[30,2]"), ("i64[9]", "i16[9,4]"), ("ui8[5,7,4]", "i32[5,7]"), ("i8[30,8]", "i64[30]"),
     ("bf16[9,2]", "i32[9]"), ("ui32[9]", "bf16[9,2]"), ("i16[3,2]", "f32[3]"), ("f32[]", "i8[4]")],
)  # fmt: skip
def test_bitcasts_to_other_widths_match_reference(source: str, target: str) -> None:
    b = Body(source, name="cut")
    (x,) = b.inputs
    graph = b.done(b.op("bitcast_convert", x, to=target))
    argument = (
        np.random.default_rng(4).integers(0, 100, x.type.sizes).astype(x.type.numpy_dtype)
    )  # no NaN, whose bits may change
    check(graph, args=[argument], ulps=0)


def test_bitcast_inside_a_kernel_matches_reference() -> None:
    b = Body("f32[6,10]", name="middle")
    (x,) = b.inputs
    bits = b.op("bitcast_convert", b.op("add", x, x), to="ui16[6,10,2]")
    transposed = b.op("transpose", bits, perm=(2, 0, 1))
    check(b.done(b.op("add", transposed, transposed)))
