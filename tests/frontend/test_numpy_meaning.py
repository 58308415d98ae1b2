"""Functions with the names of NumPy's compute the same values, with the same result type, for every element type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.types.inference import verify_node

Array = np.ndarray[Any, Any]
BF16 = ml_dtypes.bfloat16
BOOLS, INTEGERS = [np.bool_], [np.int8, np.uint8, np.int16, np.int32, np.uint32, np.int64, np.uint64]
FLOATS, COMPLEX = [np.float16, BF16, np.float32, np.float64], [np.complex64, np.complex128]
ALL = [*BOOLS, *INTEGERS, *FLOATS, *COMPLEX]
REAL = [*INTEGERS, *FLOATS]

# Names of functions with their operand types. Integers that give float results are tested in
# test_float_results_of_integers_are_f32.
UNARY: list[tuple[str, list[Any]]] = [
    ("negative", [*REAL, *COMPLEX]), ("abs", ALL), ("sign", REAL), ("floor", [*BOOLS, *REAL]), ("ceil", [*BOOLS, *REAL]),
    ("square", ALL), ("exp", [*FLOATS, *COMPLEX]), ("tanh", FLOATS), ("isfinite", ALL), ("logical_not", ALL),
    ("invert", [*BOOLS, *INTEGERS]), ("trunc", [*BOOLS, *REAL]), ("round", [*INTEGERS, *FLOATS, *COMPLEX]), ("positive", [*REAL, *COMPLEX]),
    ("isnan", ALL), ("isinf", ALL), ("signbit", REAL), ("real", ALL), ("imag", ALL), ("conj", [*REAL, *COMPLEX]), ("sqrt", COMPLEX), ("cbrt", FLOATS),
    ("sinh", [*FLOATS, *COMPLEX]), ("log1p", COMPLEX), ("cos", [*FLOATS, *COMPLEX]), ("atan", FLOATS), ("exp2", [np.float32, np.float64]),
]  # fmt: skip
BINARY: list[tuple[str, list[Any]]] = [
    ("add", ALL), ("subtract", [*REAL, *COMPLEX]), ("multiply", ALL), ("divide", [*FLOATS, *COMPLEX]), ("power", [*BOOLS, *INTEGERS]),
    ("maximum", [*BOOLS, *REAL]), ("minimum", [*BOOLS, *REAL]), ("equal", ALL), ("not_equal", ALL), ("less", [*BOOLS, *REAL]),
    ("greater_equal", [*BOOLS, *REAL]), ("logical_and", ALL), ("logical_or", ALL), ("logical_xor", ALL),
    ("floor_divide", [*BOOLS, *REAL]), ("remainder", [*BOOLS, *REAL]), ("fmod", [*BOOLS, *REAL]), ("left_shift", INTEGERS), ("right_shift", INTEGERS),
    ("less_equal", [*BOOLS, *REAL]), ("greater", [*BOOLS, *REAL]), ("copysign", FLOATS), ("hypot", FLOATS), ("logaddexp", FLOATS), ("nextafter", FLOATS),
    ("atan2", FLOATS), ("heaviside", FLOATS),
    ("bitwise_and", [*BOOLS, *INTEGERS]), ("bitwise_or", [*BOOLS, *INTEGERS]), ("bitwise_xor", [*BOOLS, *INTEGERS]),
]  # fmt: skip
REDUCED: list[tuple[str, list[Any]]] = [
    ("sum", [*BOOLS, *INTEGERS, np.float32, np.float64, *COMPLEX]), ("prod", [*BOOLS, *INTEGERS, np.float32, *COMPLEX]),
    ("max", [*BOOLS, *REAL]), ("min", [*BOOLS, *REAL]), ("any", ALL), ("all", ALL), ("mean", [np.float32, np.float64, *COMPLEX]),
    ("var", [np.float32, np.float64]), ("cumsum", [*BOOLS, *INTEGERS, np.float32, *COMPLEX]), ("cumprod", [*BOOLS, *INTEGERS, np.float32]),
    ("count_nonzero", ALL), ("sort", [*BOOLS, *REAL]), ("flip", ALL), ("roll", ALL), ("repeat", ALL), ("diff", [*BOOLS, *REAL, *COMPLEX]),
]  # fmt: skip


def example(dtype: Any, seed: int) -> Array:
    integers = np.random.default_rng(seed).integers(0, 4, (3, 4))
    if np.dtype(dtype).kind == "i" and seed == 0:
        integers = integers * 9 - 12
    return (integers * (0.75 - 0.5j)).astype(dtype) if dtype in COMPLEX else integers.astype(dtype)


def run_traced(function: Callable[..., Any], *args: Array) -> Any:
    result = mg.trace(function, args)
    assert [fault for node in result.module.graph.nodes for fault in verify_node(node)] == []
    return result.rebuild(evaluate(result.module.graph, list(args)))


def assert_matches(actual: Any, expected: Any) -> None:
    expected = np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape)
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(actual, expected)
    else:  # numbers are integers below 10 and quarters of them, so results differ by a few roundings
        eps = float(ml_dtypes.finfo(expected.dtype).eps)
        np.testing.assert_allclose(
            actual.astype(np.complex128), expected.astype(np.complex128), rtol=8 * eps, atol=8 * eps
        )


def rows(table: list[tuple[str, list[Any]]]) -> list[Any]:
    return [pytest.param(name, kinds, id=name) for name, kinds in table]


@pytest.mark.parametrize(("name", "kinds"), rows(UNARY))
def test_unary_functions_follow_numpy_for_all_types(name: str, kinds: list[Any]) -> None:
    for dtype in kinds:
        assert_matches(run_traced(getattr(mg, name), x := example(dtype, 0)), getattr(np, name)(x))


@pytest.mark.parametrize(("name", "kinds"), rows(BINARY))
def test_binary_functions_follow_numpy_for_all_types(name: str, kinds: list[Any]) -> None:
    for dtype in kinds:
        x, y = (
            example(dtype, 0),
            example(dtype, 1) + (1 if name in ("divide", "floor_divide", "remainder", "fmod") else 0),
        )
        assert_matches(run_traced(getattr(mg, name), x, y.astype(dtype)), getattr(np, name)(x, y.astype(dtype)))


@pytest.mark.parametrize(("name", "kinds"), rows(REDUCED))
def test_reductions_follow_numpy_for_all_types(name: str, kinds: list[Any]) -> None:
    for dtype in kinds:
        x = example(dtype, 1)
        by = {"roll": (1, 1), "repeat": (2, 1), "diff": (1, 1)}.get(name, (1,))
        assert_matches(run_traced(lambda v, by=by: getattr(mg, name)(v, *by), x), getattr(np, name)(x, *by))


def test_sums_of_narrow_integers_do_not_overflow() -> None:
    for dtype, wide in ((np.int8, np.int64), (np.bool_, np.int64), (np.uint16, np.uint64), (np.int32, np.int64)):
        assert_matches(run_traced(mg.sum, x := np.full(4, 100, dtype)), np.sum(x))
        assert run_traced(lambda v: v.prod(), x).dtype == wide
        assert run_traced(lambda v: mg.sum(v, dtype=np.int32), x).dtype == np.int32
    assert_matches(run_traced(lambda v: mg.einsum("ij->i", v), y := example(np.int8, 1)), np.einsum("ij->i", y))


def test_bitwise_operators_differ_from_logical_functions() -> None:
    x, y = np.array([1, 2, 0], np.int32), np.array([2, 2, 5], np.int32)
    for operator in (lambda a, b: a & b, lambda a, b: a | b, lambda a, b: a ^ b, lambda a, b: ~a, lambda a, b: 3 ^ b):
        assert_matches(run_traced(operator, x, y), operator(x, y))
    for name in ("logical_and", "logical_or", "logical_xor"):
        assert_matches(run_traced(getattr(np, name), x, y), run_traced(getattr(mg, name), x, y))
    with pytest.raises(ProgramError, match=r"'and' works on i1 and integers, not on f32(?s:.)*meshgen\.logical_and"):
        mg.trace(lambda a: a & a, ["f32[2]"])


def test_rounding_of_large_integers_is_exact() -> None:
    x = np.array([-2147483647, 2147483645], np.int32)
    assert_matches(run_traced(mg.floor, x), x)
    assert_matches(run_traced(mg.ceil, x), x)


def test_dtype_of_tensor_is_numpy_dtype() -> None:
    def branch(x: Any) -> Any:
        assert x.dtype == np.float32 and x.dtype == "float32" and str(x.dtype) == "float32" and x.dtype.itemsize == 4
        assert x.astype("bf16").dtype == ml_dtypes.bfloat16 and str(x.astype("bf16").dtype) == "bfloat16"
        return mg.zeros(x.shape, x.dtype) + mg.full((2,), 3, x.dtype)

    assert run_traced(branch, np.ones(2, np.float32)).dtype == np.float32


def test_float_results_of_integers_are_f32() -> None:
    """JAX has the same rule. NumPy's result is f16, f32 or f64, depending on the width of the integer."""
    for dtype in (*BOOLS, *INTEGERS):
        x = example(dtype, 1)
        for function in (
            mg.exp,
            mg.sqrt,
            mg.mean,
            mg.std,
            lambda v: v / 2,
            lambda v: v * 0.5,
            lambda v: mg.divide(v, v + 1),
        ):
            assert run_traced(function, x).dtype == np.float32


@pytest.mark.parametrize("dtype", [BF16, np.float16, np.float32, np.float64], ids=lambda dtype: np.dtype(dtype).name)
def test_f64_scalars_of_numpy_are_weakly_typed(dtype: Any) -> None:
    x = example(dtype, 1)
    for function in (
        lambda v: v / np.sqrt(8),
        lambda v: np.float64(2) * v,
        lambda v: mg.where(v > 0, v, np.pi * np.float64(1)),
    ):
        assert run_traced(function, x).dtype == dtype
    assert run_traced(lambda v: v + np.float32(1), x).dtype == np.promote_types(dtype, np.float32)


def test_complex_scalars_are_weakly_typed_and_promote_with_f64() -> None:
    single, double = np.ones(2, np.complex64), np.ones(2)
    assert_matches(run_traced(lambda v: v * 2j, single), single * 2j)
    assert_matches(run_traced(lambda v: v * 2j, double), double * 2j)
    assert_matches(run_traced(lambda v, w: v + w, single, double), single + double)
    assert run_traced(lambda v: v + np.complex128(1), single).dtype == np.complex64


def test_f64_array_promotes_with_warning_at_user_line() -> None:
    def widened(x: Any) -> Any:
        return x * np.ones(4)

    line = widened.__code__.co_firstlineno + 1
    with pytest.warns(
        UserWarning, match=r"MG0607: an array of f64 promotes bf16\[4\] to f64; .*astype\(x\.dtype\)"
    ) as caught:
        executable = mg.compile(widened, {"x": 2}, args=["bf16[4]"], target="cpu")
    assert [(warning.filename, warning.lineno) for warning in caught] == [(__file__, line)]
    assert [(warning.code, warning.loc and warning.loc.line) for warning in executable.warnings] == [("MG0607", line)]
    assert str(executable.fused.out_types[0]) == "f64[4]"
    for quiet in (lambda x: x * np.ones(4, BF16), lambda x: x * np.float64(2), lambda x: x.astype("f64") * np.ones(4)):
        assert mg.compile(quiet, {"x": 2}, args=["bf16[4]"], target="cpu").warnings == []


@pytest.mark.parametrize("function", [mg.negative, mg.sign, lambda v: v - v], ids=["negative", "sign", "subtract"])
def test_arithmetic_on_booleans_is_rejected(function: Any) -> None:
    with pytest.raises(ProgramError, match=r"MG0104: '.*' is not defined for booleans"):
        mg.trace(function, ["i1[2]"])


@pytest.mark.parametrize("name", ["maximum", "less", "greater_equal"])
def test_comparison_of_complex_numbers_is_rejected(name: str) -> None:
    with pytest.raises(ProgramError, match="complex numbers have no order"):
        mg.trace(lambda v: getattr(mg, name)(v, v), ["c64[2]"])


def test_full_has_type_of_its_value() -> None:
    arrays = run_traced(
        lambda x: [mg.full((2,), 3), mg.full((2,), True), mg.full((2,), 0.5), mg.full((), 1j)], np.ones(1, np.float32)
    )
    assert [array.dtype for array in arrays] == [np.int32, np.bool_, np.float32, np.complex64]
