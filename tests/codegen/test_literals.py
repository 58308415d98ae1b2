"""Tests of constants in kernel sources: Python literals have neither dtype nor shape, and Triton reads -0.0 as 0.0."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import DTYPES, Graph
from meshgen.ops.evaluate.evaluator import evaluate
from tests.codegen.bodies import ONE, Body, check, emulated

pytestmark = pytest.mark.usefixtures("one_element_per_thread")
# All ops of a line are tested in one kernel.
OF_FLOATS = (
    ("add", "subtract", "multiply", "divide", "maximum", "minimum"),
    ("power", "remainder", "atan2", "next_after"),
)
OF_INTEGERS = (
    ("add", "multiply", "divide", "remainder", "power", "maximum", "minimum"),
    ("shift_left", "shift_right_logical", "shift_right_arithmetic", "and", "or", "xor"),
)
NUMBERS = {"f": (0.0, -0.0, 1.0, -2.5, np.inf, np.nan), "i": (0, 1, 5), "u": (0, 1, 5)}
AT = (0.0, -0.0, 1.0, -1.0, 2.5, -2.5, np.inf, -np.inf, np.nan, 1e30, -1e-30, 7, -7, 0.1)


def combined(ops: Sequence[str], dtype: str) -> Graph:
    """Return a body that applies each op to an operand and each constant, in both orders."""
    b = Body(f"{dtype}[16]")
    (x,) = b.inputs
    constants = [b.splat(constant, x) for constant in NUMBERS[dtype[0].replace("b", "f")]]
    return b.done(*(b.op(op, *pair) for op in ops for constant in constants for pair in ((x, constant), (constant, x))))


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("ops", OF_FLOATS, ids=" ".join)
def test_float_constants_keep_their_signs(ops: Sequence[str], dtype: str) -> None:
    body = combined(ops, dtype)
    args = [np.resize(np.array(AT, DTYPES[dtype]), 16)]
    with np.errstate(all="ignore"):
        results, expected = emulated(kernel_source("body", body, ONE, "cuda:sm_90"), body, args), evaluate(body, args)
    applied_ops = [node.op for node in body.nodes if node.op in ops]
    for op, got, want in zip(applied_ops, results, expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5)
        # NumPy may return either zero for the maximum or minimum of 0.0 and -0.0
        is_number = ~np.isnan(want) & (op not in ("maximum", "minimum"))
        np.testing.assert_array_equal(np.signbit(got)[is_number], np.signbit(want)[is_number])


@pytest.mark.parametrize("dtype", ["i32", "ui8", "i64"])
@pytest.mark.parametrize("ops", OF_INTEGERS, ids=" ".join)
def test_integer_constants_match_reference(ops: Sequence[str], dtype: str) -> None:
    check(combined(ops, dtype))


@pytest.mark.parametrize("dtype", ["i32", "i64"])
def test_mulhi_with_constants_matches_reference(dtype: str) -> None:
    check(combined(["mulhi"], dtype))
