"""Semantics of the array-API standard: special values, result types, broadcasting, dims and indices.

NumPy implements the standard and is the reference. Where NumPy or meshgen deviates from the standard, the test says so.
The official test suite is not available as a package, so the tests cover its areas one by one. All cases of a test form
one program, which is compiled once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import combinations_with_replacement, product
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError

Array = np.ndarray[Any, Any]
INF, NAN = np.inf, np.nan
FLOATS = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, np.pi / 2, 3.0, -3.0, 2.0, INF, -INF, NAN, 1e30, -1e-30]
PARTS = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, INF, -INF, NAN]
NUMERIC_TYPES = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "complex64", "complex128")  # fmt: skip
ROUNDINGS = 16  # roundings by which a result may differ (chosen: no function of the standard needs more)
UNARY = [
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cos",
    "cosh",
    "exp",
    "expm1",
    "log",
    "log1p",
    "log2",
    "log10",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "abs",
    "negative",
    "positive",
    "square",
    "isfinite",
    "isinf",
    "isnan",
]
REAL_UNARY = [*UNARY, "ceil", "floor", "trunc", "round", "signbit", "real", "reciprocal"]
BINARY = [
    "add",
    "subtract",
    "multiply",
    "divide",
    "floor_divide",
    "remainder",
    "pow",
    "atan2",
    "copysign",
    "hypot",
    "logaddexp",
    "maximum",
    "minimum",
    "nextafter",
    "equal",
    "not_equal",
    "less",
    "less_equal",
    "greater",
    "greater_equal",
]


def run(function: Callable[..., Any], *args: Array) -> Any:
    return mg.compile(function, {"d": 1}, args=list(args), target="cpu")(*args)


def assert_equal_values(actual: Any, expected: Any, description: str) -> None:
    """Require equal types and shapes, numbers within a few roundings, zeros of the same sign, and NaN in the same
    positions.
    """
    expected = np.asarray(expected)
    assert (actual.dtype, actual.shape) == (expected.dtype, expected.shape), description
    for actual_part, expected_part in (
        ((actual.real, expected.real), (actual.imag, expected.imag))
        if expected.dtype.kind == "c"
        else ((actual, expected),)
    ):
        if expected.dtype.kind not in "fc":
            np.testing.assert_array_equal(actual_part, expected_part, description)
            continue
        bound = ROUNDINGS * np.finfo(expected.dtype).eps
        np.testing.assert_allclose(actual_part, expected_part, rtol=bound, atol=0, err_msg=description)
        signs = np.signbit(actual_part) == np.signbit(expected_part)
        assert (signs | np.isnan(expected_part)).all(), f"{description}: the sign of {expected_part[~signs]}"


def assert_matches_numpy(function: Callable[[Any], Callable[..., dict[str, Any]]], *args: Array) -> None:
    """Require that `function(mg)`, compiled, and `function(np)` return the same values under the same names."""
    with np.errstate(all="ignore"):
        expected = function(np)(*args)
    for (name, actual), reference in zip(run(function(mg), *args).items(), expected.values(), strict=True):
        assert_equal_values(np.asarray(actual), reference, name)


def named(xp: Any, names: Sequence[str], *args: Any) -> dict[str, Any]:
    return {name: getattr(xp, name)(*args) for name in names}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_unary_functions_match_numpy_at_special_values(dtype: str) -> None:
    """sign(-0.0) is tested apart: it is -0.0 in meshgen and XLA, but 0 in the standard."""
    x = np.array(FLOATS, dtype)
    assert_matches_numpy(lambda xp: lambda x: named(xp, REAL_UNARY, x), x)
    np.testing.assert_array_equal(run(mg.sign, x), np.sign(x))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_binary_functions_match_numpy_at_special_values(dtype: str) -> None:
    x = np.array(FLOATS, dtype)
    assert_matches_numpy(lambda xp: lambda x, y: named(xp, BINARY, x, y), x[:, None], x[None])


def test_complex_functions_match_numpy_at_special_values() -> None:
    x = np.array([complex(re, im) for re, im in product(PARTS, PARTS)], np.complex64)
    assert_matches_numpy(lambda xp: lambda x: named(xp, [*UNARY, "conj", "real", "imag"], x), x)
    names = ["add", "subtract", "multiply", "equal", "not_equal"]
    assert_matches_numpy(lambda xp: lambda x, y: named(xp, names, x, y), x[:, None], x[None])


@pytest.mark.parametrize("dtype", NUMERIC_TYPES[:8])
def test_integer_functions_match_numpy_at_type_limits(dtype: str) -> None:
    """True division of integers is excluded: it has type f32 in meshgen and f64 in NumPy, and the standard does not
    define its type.
    """
    ends = np.iinfo(dtype)
    x = np.array([0, 1, 2, 3, 7, ends.max, ends.max - 1, ends.min, ends.min + 1], dtype)
    y = np.array([1, 2, 3, 5, *([-2, -3] if ends.min else [])], dtype)
    small = np.array([0, 1, 2, 5], dtype)
    names = [*["add", "subtract", "multiply", "floor_divide", "remainder", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"], *BINARY[-6:]]  # fmt: skip
    assert_matches_numpy(lambda xp: lambda x, y: named(xp, names, x, y), x[:, None], y[None])
    shifts = ["bitwise_left_shift", "bitwise_right_shift", "pow"]
    assert_matches_numpy(lambda xp: lambda x, y: named(xp, shifts, x, y), x[:, None], small[None])
    names = [
        "abs",
        "ceil",
        "floor",
        "round",
        "trunc",
        "sign",
        "square",
        "bitwise_invert",
        "negative",
        "positive",
        "isnan",
        "isfinite",
        "isinf",
    ]
    assert_matches_numpy(lambda xp: lambda x: named(xp, names, x), x)


def has_promotion(first: str, second: str) -> bool:
    """Whether the standard defines the promotion of two types. Kinds of types do not mix (except real and complex
    floats), and uint64 does not mix with signed integers.
    """
    kinds_of_both = {np.dtype(dtype).kind for dtype in (first, second)}
    is_table = len(kinds_of_both) == 1 or kinds_of_both == {"i", "u"} or kinds_of_both == {"f", "c"}
    return is_table and not (kinds_of_both == {"i", "u"} and "uint64" in (first, second))


PAIRS = [pair for pair in combinations_with_replacement(("bool", *NUMERIC_TYPES), 2) if has_promotion(*pair)]


def test_result_types_follow_promotion_table() -> None:
    def check_pairs(*arrays: Any) -> None:
        arrays_by_dtype = dict(zip(("bool", *NUMERIC_TYPES), arrays, strict=True))
        for left, right in PAIRS:
            expected = np.result_type(left, right)
            assert (
                mg.result_type(arrays_by_dtype[left], arrays_by_dtype[right]) == mg.result_type(left, right) == expected
            )
            assert mg.where(arrays_by_dtype["bool"], arrays_by_dtype[left], arrays_by_dtype[right]).dtype == mg.concat([arrays_by_dtype[left], arrays_by_dtype[right]]).dtype == expected  # fmt: skip
            assert (arrays_by_dtype[left] == arrays_by_dtype[right]).dtype == np.bool_
            if left != "bool":
                assert (
                    (arrays_by_dtype[left] + arrays_by_dtype[right]).dtype
                    == (arrays_by_dtype[right] * arrays_by_dtype[left]).dtype
                    == expected
                )

    assert len(PAIRS) == 43
    mg.trace(
        lambda *arrays: (check_pairs(*arrays), arrays[0])[1], [np.zeros(2, dtype) for dtype in ("bool", *NUMERIC_TYPES)]
    )


def test_python_scalar_keeps_array_type() -> None:
    for dtype in NUMERIC_TYPES:
        kind = np.dtype(dtype).kind
        scalars = [1, *([1.5] if kind in "fc" else []), *([1j] if kind == "c" else [])]
        for scalar in scalars:
            traced = mg.trace(lambda x, s=scalar: (x + s, s * x, x - s), [np.zeros(2, dtype)])
            assert {output.type.numpy_dtype for output in traced.module.graph.outputs} == {np.dtype(dtype)}


@pytest.mark.parametrize("dtype", ["bool", *NUMERIC_TYPES])
def test_sums_and_products_have_result_types_of_standard(dtype: str) -> None:
    """Sums of small integers and booleans have the default integer type. Means exist only for floats."""
    x = np.array([[1, 0, 3], [2, 5, 1]]).astype(dtype)
    names = ["sum", "prod"] + (["cumulative_sum", "cumulative_prod"] if dtype != "bool" else [])
    assert_matches_numpy(lambda xp: lambda x: {name: getattr(xp, name)(x, axis=1) for name in names}, x)
    assert_matches_numpy(lambda xp: lambda x: {"any": xp.any(x), "all": xp.all(x, axis=0), "count": xp.count_nonzero(x).astype("int64")}, x)  # fmt: skip
    if np.dtype(dtype).kind in "fc":
        assert_matches_numpy(lambda xp: lambda x: {"mean": xp.mean(x, axis=0)}, x)


@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", "mean", "std", "var", "any", "all", "argmax", "argmin"])
def test_reductions_along_any_dims_match_numpy(name: str) -> None:
    x = np.random.default_rng(0).standard_normal((2, 3, 4)).astype(np.float32)
    axes: list[Any] = [None, 0, 1, -1] + ([] if name.startswith("arg") else [(0, 2), (-1, 0), (), (0, 1, 2)])

    def every(xp: Any) -> Callable[[Any], dict[str, Any]]:
        function = getattr(xp, name)
        cast = (lambda y: y.astype("int64")) if name.startswith("arg") else (lambda y: y)
        return lambda x: {f"{name} {axis} {keep}": cast(function(x, axis=axis, keepdims=keep)) for axis in axes for keep in (False, True)}  # fmt: skip

    x = np.round(x * 4) / 4  # multiples of 1/4, whose sums are exact in any order
    assert_matches_numpy(every, x)
    for axis in (3, -4):
        with pytest.raises(ProgramError, match="MG0104"):
            mg.trace(partial(getattr(mg, name), axis=axis), [x])


def test_empty_reduction_returns_identity_element() -> None:
    x = np.zeros((0, 3), np.float32)
    names = ["sum", "prod", "any", "all"]
    assert_matches_numpy(lambda xp: lambda x: {name: getattr(xp, name)(x, axis=0) for name in names}, x)
    # the standard does not define this case
    np.testing.assert_array_equal(run(lambda x: mg.max(x, axis=0), x), np.full(3, -INF))
    with pytest.raises(ProgramError, match="is empty and has no maximum"):
        mg.trace(lambda x: mg.argmax(x, axis=0), [x])


SHAPES = [
    ((3, 1), (1, 4)),
    ((2, 3), (3,)),
    ((), (2, 3)),
    ((1,), (2, 3)),
    ((2, 1, 4), (3, 1)),
    ((0, 3), (1, 3)),
    ((1,), (0,)),
]


def test_shapes_broadcast_like_array_api() -> None:
    args = [np.ones(shape, np.float32) for pair in SHAPES for shape in pair]

    def added(xp: Any) -> Callable[..., dict[str, Any]]:
        return lambda *xs: (
            {str(n): a + b for n, (a, b) in enumerate(zip(xs[::2], xs[1::2], strict=True))}
            | {
                f"both {n}": xp.broadcast_arrays(a, b)[1]
                for n, (a, b) in enumerate(zip(xs[::2], xs[1::2], strict=True))
            }
        )

    assert_matches_numpy(added, *args)
    for left, right in (((3,), (4,)), ((2, 3), (2,)), ((0,), (3,))):
        with pytest.raises(ProgramError, match="MG0104"):
            mg.trace(lambda x, y: x + y, [np.ones(left), np.ones(right)])


INDICES = [
    "0, 1", "-1", "1:3", "::2", "::-1", "-1:0:-2", "..., 0", "0, ..., -1", "None, 1", "..., None", ":, None, 1:, ...", "5:2", "-100:100", "()", "...",
    "i", "i, 0", "i, i[0]", "..., i", "1:, i, ::-1", "i, :, i", "i[0], 1",
]  # fmt: skip


def test_indexing_matches_numpy() -> None:
    x = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
    i = np.array([[0, -1], [2, 1]])
    index_expressions = lambda i: [eval(f"np.s_[{text}]", {"np": np, "i": i}) for text in INDICES]  # noqa: E731
    assert_matches_numpy(
        lambda xp: lambda x, i: {text: x[at] for text, at in zip(INDICES, index_expressions(i), strict=True)}, x, i
    )
    for invalid_index in (np.s_[3], np.s_[0, 0, 0, 0], np.s_[:, -5], np.s_[..., ...], np.s_[1.5]):
        with pytest.raises(ProgramError):
            mg.trace(lambda x, at=invalid_index: x[at], [x])
    with pytest.raises(ProgramError, match=r"MG0104(?s:.)*where"):
        mg.trace(lambda x: x[x > 0], [x])


MANIPULATED = """
xp.concat([x, x[:1]]) | xp.concat([x, x], axis=-1) | xp.concat([x, x], axis=None) | xp.stack([x, x], axis=1) | xp.stack([x, x], axis=-1)
xp.expand_dims(x, axis=1) | xp.expand_dims(x, axis=(0, -1)) | xp.squeeze(x[:, None], axis=1) | xp.flip(x) | xp.flip(x, axis=(0, 2)) | xp.moveaxis(x, 0, -1)
xp.permute_dims(x, (2, 0, 1)) | xp.matrix_transpose(x) | x.mT | xp.repeat(x, 2, axis=1) | xp.repeat(x, 3) | xp.reshape(x, (6, -1)) | xp.roll(x, 2)
xp.roll(x, (1, -1), axis=(0, 2)) | xp.tile(x, (2, 1)) | xp.unstack(x, axis=1)[2] | xp.broadcast_to(x, (2, *x.shape)) | xp.tril(x, k=1) | xp.triu(x, k=-1)
xp.take(x, xp.asarray([2, 0]), axis=1) | xp.take_along_axis(x, xp.argsort(x, axis=2), axis=2) | xp.sort(x, axis=0) | xp.diff(x, axis=1, n=2)
xp.sort(x, axis=-1, stable=False) | xp.cumulative_sum(x, axis=1, include_initial=True) | xp.clip(x, -0.5, 0.5) | xp.clip(x, max=0.0)
xp.where(x > 0, x, 0.0) | xp.meshgrid(x[0, 0], x[0, :, 0], indexing="ij")[1] | xp.meshgrid(x[0, 0], x[0, :, 0])[0] | xp.astype(x, "int32")
xp.eye(3, 4, k=1) | xp.linspace(0.0, 1.0, 5, endpoint=False) | xp.arange(5.0, 0.0, -1.5) | xp.full((2, 3), 1.5) | xp.full_like(x, 2) | xp.zeros_like(x)
"""


def test_manipulation_and_creation_functions_match_numpy() -> None:
    """Arrays that are created without a type are f32 in meshgen and f64 in NumPy. In the standard, each library chooses
    its default.
    """
    texts = [expression.strip() for expression in MANIPULATED.replace("\n", "|").split("|") if expression.strip()]
    x = np.random.default_rng(1).standard_normal((2, 3, 4)).astype(np.float32)

    def every(xp: Any) -> Callable[[Any], dict[str, Any]]:
        kept = lambda value: value.astype("float32") if value.dtype == np.float64 else value  # noqa: E731
        return lambda x: {text: kept(eval(text, {"xp": xp, "x": x})) for text in texts}

    assert_matches_numpy(every, x)


def test_matmul_and_linalg_functions_match_numpy() -> None:
    texts = ["x @ y", "xp.matmul(x[0], y)", "xp.matmul(v, y)", "xp.matmul(x, v)", "xp.vecdot(x, x)", "xp.vecdot(c, c[::-1], axis=0)", "xp.tensordot(x[0], y[0], axes=2)",
             "xp.tensordot(x, y, axes=([2, 0], [1, 0]))", "xp.linalg.outer(v, v)", "xp.linalg.cross(x[..., :3], x[..., 1:])", "xp.linalg.trace(x, offset=1)",
             "xp.linalg.diagonal(x, offset=-1)", "xp.linalg.matrix_power(s, 3)", "xp.linalg.vector_norm(v, ord=1)", "xp.linalg.matrix_norm(x, ord=1, keepdims=True)"]  # fmt: skip
    draw = np.random.default_rng(2)
    integers = lambda *shape: draw.integers(-3, 4, shape).astype(np.float32)  # noqa: E731
    args = {
        "x": integers(2, 4, 4),
        "y": integers(2, 4, 4),
        "v": integers(4),
        "s": integers(3, 3),
        "c": integers(3) + 1j * integers(3),
    }
    assert_matches_numpy(lambda xp: lambda *arrays: {text: eval(text, {"xp": xp, **dict(zip(args, arrays, strict=True))}) for text in texts}, *args.values())  # fmt: skip


def test_data_dependent_size_is_rejected_with_hint() -> None:
    for name in ("nonzero", "unique_all", "unique_counts", "unique_inverse", "unique_values"):
        with pytest.raises(ProgramError, match=r"MG0104(?s:.)*size="):
            mg.trace(getattr(mg, name), ["f32[3]"])
