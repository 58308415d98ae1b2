"""Calls of the standard's functions, compared with `array_api_strict`. That implementation rejects all calls outside
the standard.

Calls that it rejects are skipped. All calls of a test form one program, which is compiled once. Arrays are random;
result types and shapes must be equal. Indices have the default integer type of each library, as in the standard.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import array_api_strict as strict
import numpy as np
import pytest

import meshgen as mg

Array = np.ndarray[Any, Any]
REAL = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
TYPES = ("bool", *REAL, "complex64", "complex128")
UNARY = [
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "bitwise_invert", "ceil", "conj", "cos", "cosh", "exp", "expm1", "floor", "imag",
    "isfinite", "isinf", "isnan", "log", "log1p", "log2", "log10", "logical_not", "negative", "positive", "real", "reciprocal", "round", "sign",
    "signbit", "sin", "sinh", "square", "sqrt", "tan", "tanh", "trunc", "argmax", "argmin", "sum", "prod", "min", "max", "mean", "std", "var", "all",
    "any", "cumulative_sum", "cumulative_prod", "diff", "sort", "argsort", "flip", "matrix_transpose", "tril", "triu", "ones_like", "zeros_like",
    "count_nonzero", "unstack", "broadcast_arrays",
]  # fmt: skip
ALONG = ["sum", "prod", "mean", "std", "var", "min", "max", "all", "any", "argmax", "argmin", "count_nonzero"]
SCANS = ["cumulative_sum", "cumulative_prod", "sort", "argsort", "flip", "diff"]
BINARY = [
    "add", "atan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "copysign", "divide", "equal",
    "floor_divide", "greater", "greater_equal", "hypot", "less", "less_equal", "logaddexp", "logical_and", "logical_or", "logical_xor", "maximum",
    "minimum", "multiply", "nextafter", "not_equal", "pow", "remainder", "subtract",
]  # fmt: skip
CALLS_WITH_ARGUMENTS = {  # the arrays are x [3, 4], y [4, 5], z [2, 3, 4], v [4], booleans c [3, 4] and indices i [2]
    "matmul": ["x, y", "z, y", "v, y", "x, v", "v, v"], "tensordot": ["x, y, axes=1", "x, x, axes=2", "z, y, axes=((2,), (0,))"], "vecdot": ["x, x", "x, x, axis=0", "z, x"],
    "reshape": ["x, (2, 6)", "x, (-1,)", "z, (4, -1)"], "permute_dims": ["z, (2, 0, 1)"], "expand_dims": ["x, axis=1", "x, axis=-1"], "squeeze": ["x[:1, :], axis=0"],
    "roll": ["x, 2", "x, (1, 2), axis=(0, 1)", "x, -1, axis=1"], "flip": ["z, axis=1", "z, axis=(0, 2)"], "repeat": ["x, 2", "x, 2, axis=1"], "tile": ["x, (2, 1)", "x, (2, 1, 2)"],
    "moveaxis": ["z, 0, 2", "z, (0, 1), (2, 0)"], "broadcast_to": ["v, (3, 4)"], "take": ["x, i, axis=0", "z, i, axis=-1"], "searchsorted": ["xp.sort(v), v", "xp.sort(v), x, side='right'"],
    "where": ["c, x, x", "c, x, v"], "clip": ["x, 1, 3", "x, min=2", "x, max=v"], "tril": ["x, k=1", "z, k=-1"], "triu": ["x, k=-1"], "full_like": ["x, 3"], "concat": ["[x, x]", "[x, x], axis=1", "[x, v], axis=None"],
    "stack": ["[x, x]", "[x, x], axis=-1"], "meshgrid": ["v, v", "v, v, indexing='ij'"], "astype": ["x, xp.float32", "x, xp.bool"], "matrix_transpose": ["z"], "diff": ["x, n=2", "x, axis=0", "x, prepend=x[:, :1]"],
    "sum": ["z, axis=(0, 2)", "x, dtype=xp.float64", "z, axis=()"], "prod": ["z, axis=(0, 1), keepdims=True", "x, dtype=xp.float64"], "max": ["z, axis=(1, 2)"], "any": ["z, axis=(0, 1)"],
    "std": ["x, axis=0, correction=1"], "var": ["z, axis=(0, 2), correction=1.5"], "cumulative_sum": ["x, axis=1, include_initial=True", "x, axis=0, dtype=xp.float64"], "cumulative_prod": ["x, axis=1, include_initial=True"],
    "sort": ["x, descending=True", "z, axis=1"], "argsort": ["x, descending=True", "x, axis=0"], "take_along_axis": ["x, xp.argsort(x, axis=1), axis=1"], "isin": ["x, v"],
}  # fmt: skip
INDICES = ("argmax", "argmin", "argsort", "searchsorted", "linalg.matrix_rank")
EXTENSION_CALLS = {
    "linalg": ["det(s)", "inv(s)", "cholesky(s)", "cholesky(s, upper=True)", "eigvalsh(s)", "slogdet(s)", "solve(s, x)", "solve(s, v)", "svdvals(x)", "matrix_power(s, 3)", "matrix_norm(x)",
               "matrix_norm(x, ord=2)", "matrix_norm(x, ord='nuc')", "vector_norm(x)", "vector_norm(x, ord=1, axis=0)", "trace(s)", "trace(s, offset=1)", "diagonal(s, offset=-1)", "outer(v, v)",
               "cross(x[:3, :2].T, x[:3, :2].T)", "pinv(x)", "matrix_rank(s)", "vecdot(s, s)", "tensordot(s, s)", "matmul(s, s)", "matrix_transpose(x)"],
    "fft": ["fft(c)", "ifft(c)", "fft(c, n=3)", "rfft(r)", "irfft(c)", "fftn(c)", "ifftn(c, axes=(0,))", "rfftn(r)", "irfftn(c)", "hfft(c)", "ihfft(r)", "fftshift(r)", "ifftshift(r, axes=0)",
            "fft(c, norm='ortho')", "rfft(r, norm='forward')", "fftfreq(8, dtype=xp.float32)", "rfftfreq(8, d=0.5, dtype=xp.float32)"],
}  # fmt: skip


@dataclass
class Calls:
    """Texts of expressions over `xp` and named arrays, with the results of `array_api_strict`. Expressions that it
    rejects are left out.
    """

    arrays: dict[str, Array]
    expected_values: dict[str, Any]

    @classmethod
    def of(cls, texts: Iterator[str], arrays: dict[str, Array]) -> Calls:
        strict_arrays = {name: strict.asarray(array) for name, array in arrays.items()}
        results = ((text, _accepted(text, strict_arrays)) for text in texts)
        return cls(arrays, {text: value for text, value in results if value is not None})

    def compare(self) -> None:
        def program(**arrays: Any) -> dict[str, Any]:
            return {text: eval(text, {"xp": mg, **arrays}) for text in self.expected_values}

        actual = mg.compile(program, {"d": 1}, args=self.arrays, target="cpu")(**self.arrays)
        mismatches = [
            f"{text}: {mismatch}"
            for text, reference in self.expected_values.items()
            if (mismatch := _difference(actual[text], reference))
        ]
        assert not mismatches, "\n".join(mismatches)


def _accepted(text: str, arrays: dict[str, Any]) -> Any:
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("error")  # casts from complex to real numbers warn
            result = eval(text, {"xp": strict, **arrays})
    except (TypeError, ValueError, IndexError, np.exceptions.ComplexWarning):
        return None
    return strict.astype(result, strict.int32) if text.removeprefix("xp.").startswith(INDICES) else result


def _difference(actual: Any, expected: Any) -> str:
    if isinstance(expected, (tuple, list)):
        pairs = zip(actual, expected, strict=True)
        return next((mismatch for pair in pairs if (mismatch := _difference(*pair))), "")
    actual_array, expected_array = np.asarray(actual), np.asarray(expected)
    if (actual_array.dtype, actual_array.shape) != (expected_array.dtype, expected_array.shape):
        return f"{actual_array.dtype}{list(actual_array.shape)}, not {expected_array.dtype}{list(expected_array.shape)}"
    bound = (
        64 * np.finfo(expected_array.dtype).eps if expected_array.dtype.kind in "fc" else 0
    )  # summands are near 1, so the absolute tolerance is in roundings of 1
    return (
        ""
        if np.allclose(actual_array, expected_array, bound, bound, equal_nan=True)
        else f"{actual_array.ravel()[:4]}, not {expected_array.ravel()[:4]}"
    )


def drawn(dtype: str, *shape: int) -> Array:
    rng = np.random.default_rng(len(shape))
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if np.dtype(dtype).kind in "iu":
        return rng.integers(1, 7, shape).astype(dtype)
    real = rng.uniform(0.1, 0.9, shape)
    return (real + 1j * rng.uniform(0.1, 0.9, shape) if np.dtype(dtype).kind == "c" else real).astype(dtype)


def shaped(dtype: str) -> dict[str, Array]:
    shapes = {"x": (3, 4), "y": (4, 5), "z": (2, 3, 4), "v": (4,)}
    arrays = {name: drawn(dtype, *shape) for name, shape in shapes.items()}
    return arrays | {"c": drawn("bool", 3, 4), "i": np.array([2, 0])}


@pytest.mark.parametrize("dtype", TYPES)
def test_functions_of_one_array_match_array_api_strict(dtype: str) -> None:
    def texts() -> Iterator[str]:
        yield from (f"xp.{name}(x)" for name in UNARY)
        yield from (f"xp.{name}(x, axis={axis}, keepdims={axis == 0})" for name in ALONG for axis in (0, 1, -1))
        yield from (f"xp.{name}(x, axis={axis})" for name in SCANS for axis in (0, -1))
        yield from (f"xp.{name}({call})" for name, calls in CALLS_WITH_ARGUMENTS.items() for call in calls)

    Calls.of(texts(), shaped(dtype)).compare()


def test_functions_of_two_arrays_match_array_api_strict() -> None:
    def texts() -> Iterator[str]:
        for name in BINARY:
            yield from (f"xp.{name}({a}, {a})" for a in TYPES)
            yield from (f"xp.{name}({a}, {a}[0, :])" for a in TYPES)
            yield from (f"xp.{name}({a}, 2)" for a in TYPES)
        mixed = ("add", "multiply", "equal", "maximum", "divide", "pow")
        yield from (f"xp.{name}({a}, {b})" for name in mixed for a in TYPES for b in TYPES if a != b)

    Calls.of(texts(), {dtype: drawn(dtype, 3, 4) for dtype in TYPES}).compare()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("family", EXTENSION_CALLS)
def test_linalg_and_fft_extensions_match_array_api_strict(family: str, dtype: str) -> None:
    s = drawn(dtype, 4, 4)
    arrays = {
        "x": drawn(dtype, 4, 3),
        "s": s @ s.T + 3 * np.eye(4, dtype=dtype),
        "v": drawn(dtype, 4),
        "r": drawn(dtype, 4, 8),
    }
    arrays["c"] = drawn({"float32": "complex64", "float64": "complex128"}[dtype], 4, 5)
    Calls.of((f"xp.{family}.{call}" for call in EXTENSION_CALLS[family]), arrays).compare()


def test_every_function_has_a_call() -> None:
    """Functions with data-dependent sizes, creation functions and type queries are excluded, because other tests cover
    them.
    """
    kinds: Callable[[str], Any] = lambda name: getattr(strict, name)  # noqa: E731
    functions = {name for name in dir(strict) if not name.startswith("_") and inspect.isfunction(kinds(name))}
    excluded = {
        name for name in functions if name.startswith(("unique_", "set_array_api", "get_array_api", "reset_array_api"))
    }
    creation_functions = {
        "arange",
        "asarray",
        "empty",
        "empty_like",
        "eye",
        "from_dlpack",
        "full",
        "linspace",
        "ones",
        "zeros",
    }
    queries = {"can_cast", "finfo", "iinfo", "isdtype", "result_type", "nonzero", "broadcast_shapes"}
    assert (
        functions - excluded - creation_functions - queries - {*UNARY, *ALONG, *SCANS, *BINARY, *CALLS_WITH_ARGUMENTS}
        == set()
    )
