"""Numbers in the source of kernels: Python's numbers are neither typed nor spread, and Triton takes -0.0 for 0.0."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import DTYPES, Graph
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.bodies import ONE, Body, check, emulated

OF_FLOATS = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "remainder", "atan2", "next_after")
OF_INTEGERS = (
    "add", "multiply", "divide", "remainder", "power", "maximum", "minimum", "mulhi", "shift_left", "shift_right_logical",
    "shift_right_arithmetic", "and", "or", "xor",
)  # fmt: skip
NUMBERS = {"f": (0.0, -0.0, 1.0, -2.5, np.inf, np.nan), "i": (0, 1, 5), "u": (0, 1, 5)}
AT = (0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e30, -1e-30, 7, -7, 0.1)


def combined(op: str, dtype: str) -> Graph:
    """An operand with each number, on either side."""
    b = Body(f"{dtype}[16]")
    (x,) = b.inputs
    numbers = [b.splat(number, x) for number in NUMBERS[dtype[0].replace("b", "f")]]
    return b.done(*(b.op(op, *pair) for number in numbers for pair in ((x, number), (number, x))))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("op", OF_FLOATS)
def test_numbers_keep_their_signs(op: str, dtype: str) -> None:
    body = combined(op, dtype)
    args = [np.resize(np.array(AT, DTYPES[dtype]), 16)]
    with np.errstate(all="ignore"):
        found, expected = emulated(kernel_source("body", body, ONE, "cuda:sm_90"), body, args), evaluate(body, args)
    for got, want in zip(found, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
        is_number = ~np.isnan(want) & (op not in ("maximum", "minimum"))  # of 0.0 and -0.0 NumPy takes either
        np.testing.assert_array_equal(np.signbit(got)[is_number], np.signbit(want)[is_number])


@pytest.mark.parametrize("dtype", ["i32", "ui8", "i64"])
@pytest.mark.parametrize("op", OF_INTEGERS)
def test_numbers_in_integer_operations(op: str, dtype: str) -> None:
    if op == "mulhi" and dtype == "ui8":
        op = "multiply"
    check(combined(op, dtype))
