"""Tests of device functions as PTX on the emulated GPU, with the error bounds of `ops/tolerance`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from bodies import ONE, Body, emulated
from scipy import special

from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import DTYPES
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.registry import OPS
from meshgen.ops.tolerance.tracked import exact

pytestmark = pytest.mark.usefixtures("one_element_per_thread")
Array = np.ndarray
UNARY = (  # the ops of a line share a kernel
    ("exponential", "exponential_minus_one", "log", "log_plus_one", "logistic", "tanh", "sqrt", "rsqrt"),
    ("cbrt", "sine", "cosine", "tan", "erf", "erfc", "sinh", "cosh"),
    ("asin", "acos", "asinh", "acosh", "atanh", "lgamma", "digamma", "bessel_i1e"),
)
SCIPY = {"zeta": special.zeta, "lgamma": special.gammaln, "bessel_i1e": special.i1e, "erfc": special.erfc}


def numbers(dtype: str, seed: int) -> Array:
    """Return random bit patterns, numbers of moderate size, and special values."""
    kind = np.dtype(DTYPES[dtype])
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 2 ** (8 * kind.itemsize), 600, np.uint64).astype(f"u{kind.itemsize}").view(kind)
    wide = [rng.uniform(-reach, reach, 300).astype(kind) for reach in (1.2, 5.0, 110.0)]
    special_values = np.array([0.0, -0.0, 1, -1, 0.5, -0.5, 2, -2, 1e-40, -1e-40, 1e-38, np.inf, -np.inf, np.nan], kind)
    return np.concatenate([bits, *wide, special_values, np.nextafter(kind.type(1), np.array([0, 2], kind))])


def agree(ops: Sequence[str], dtype: str, args: list[Array]) -> None:
    """Check that the results of a kernel are within their ops' error bounds for exact arguments."""
    body = Body(*[f"{dtype}[{len(args[0])}]"] * len(args))
    graph = body.done(*(body.op(op, *body.inputs) for op in ops))
    with np.errstate(all="ignore"):
        results, references = emulated(kernel_source("functions", graph, ONE), graph, args), evaluate(graph, args)
        for node, got, want in zip(graph.nodes, results, references, strict=True):
            rule = OPS[node.op].error
            assert rule is not None
            (bound,) = rule(node, [exact(arg) for arg in args], [want], False)
            wide, expected = (np.asarray(array, np.float64) for array in (got, want))
            same = (wide == expected) | (np.isnan(wide) & np.isnan(expected))
            off = ~same & ~(np.abs(wide - expected) <= bound.error)
            first = [(tuple(float(arg[i]) for arg in args), wide[i], expected[i]) for i in np.flatnonzero(off)[:8]]
            assert not first, f"{node.op} of {dtype}: {off.sum()} results exceed their bound: {first}"


@pytest.mark.parametrize("dtype", ["f32", "f64", "bf16"])
@pytest.mark.parametrize("ops", UNARY, ids=" ".join)
def test_unary_functions_are_within_error_bounds(ops: Sequence[str], dtype: str) -> None:
    agree(ops, dtype, [numbers(dtype, 1)])


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_16_bit_functions_are_correct_for_all_inputs(dtype: str) -> None:
    """Check results of any magnitude, also below the least normal number: logistic(-91.5) is 1.8e-40."""
    agree(["exponential", "logistic", "tanh"], dtype, [np.arange(2**16, dtype=np.uint16).view(DTYPES[dtype])])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_binary_functions_are_within_error_bounds(dtype: str) -> None:
    x, y = numbers(dtype, 2), np.random.default_rng(0).permutation(numbers(dtype, 3))
    agree(["divide", "remainder", "next_after", "atan2"], dtype, [x, y])
    agree(["power"], dtype, [np.abs(x), y])


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_next_after_of_16_bit_floats_matches_reference(dtype: str) -> None:
    x = np.array([0.0, -0.0, 1, 1, -2, -2, 3, np.inf, np.nan, 1e-7]).astype(DTYPES[dtype])
    y = np.array([1.0, -1, 2, 0, -5, 5, 3, 0, 1, -np.inf]).astype(DTYPES[dtype])
    agree(["next_after"], dtype, [x, y])


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_float_remainder_is_exact_for_every_quotient(dtype: str) -> None:
    x = np.array([1e8, 1e6, 6, -6, 2.0**127, 3e38, 1e-40, 5, 5, np.inf, -0.0, 7], DTYPES[dtype])
    y = np.array([3, 0.1, 0.1, 0.1, 1e-45, 7e-39, 3e-41, np.inf, 0, 2, 3, -2], DTYPES[dtype])
    body = Body(*[f"{dtype}[12]"] * 2)
    graph = body.done(body.op("remainder", *body.inputs))
    (got,) = emulated(kernel_source("remainder", graph, ONE), graph, [x, y])
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(got, np.fmod(x, y))
    np.testing.assert_array_equal(np.signbit(got[:8]), np.signbit(x[:8]))


@pytest.mark.parametrize("dtype", ["i8", "i32", "i64", "ui8", "ui32", "ui64"])
def test_integer_division_by_zero_and_overflow_match_reference(dtype: str) -> None:
    kind = np.iinfo(DTYPES[dtype])
    limits = np.array(
        [kind.min, kind.min + 1, -1 if kind.min else 1, 0, 1, 2, 7, kind.max - 1, kind.max], DTYPES[dtype]
    )
    x, y = (part.ravel() for part in np.meshgrid(limits, limits))
    body = Body(*[f"{dtype}[{len(x)}]"] * 2)
    graph = body.done(*(body.op(op, *body.inputs) for op in ("divide", "remainder")))
    results, expected = emulated(kernel_source("quotients", graph, ONE), graph, [x, y]), evaluate(graph, [x, y])
    for got, want in zip(results, expected, strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_zeta_and_polygamma_are_within_error_bounds(dtype: str) -> None:
    rng = np.random.default_rng(1)
    order = np.concatenate([rng.integers(1, 8, 200), rng.uniform(1, 30, 200), [1, 0.5, 2, 3, 2, 4]]).astype(
        DTYPES[dtype]
    )
    x = np.concatenate([rng.uniform(-11, 12, 200), rng.uniform(0, 1e5, 200), [2, 2, 0, -1, -3, np.inf]]).astype(
        DTYPES[dtype]
    )
    agree(["zeta"], dtype, [order, x])
    agree(["polygamma"], dtype, [np.floor(order) - 1, x])


@pytest.mark.parametrize("op", SCIPY)
def test_special_functions_match_scipy(op: str) -> None:
    rng = np.random.default_rng(4)
    args = [rng.uniform(1.5, 9, 300), rng.uniform(0.1, 40, 300)] if op == "zeta" else [rng.uniform(0.1, 20, 300)]
    body = Body(*["f64[300]"] * len(args))
    graph = body.done(body.op(op, *body.inputs))
    (got,) = emulated(kernel_source(op, graph, ONE), graph, args)
    np.testing.assert_allclose(got, SCIPY[op](*args), rtol=1e-13, atol=1e-14)
