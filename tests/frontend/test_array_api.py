"""The array-API standard: presence of its names, and its queries for types and namespaces."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from tests.frontend.numpy_expressions import compare

# Names that version 2024.12 of the standard requires, from its table of contents.
STANDARD = [
    "e",
    "inf",
    "nan",
    "newaxis",
    "pi",
    "arange",
    "asarray",
    "empty",
    "empty_like",
    "eye",
    "from_dlpack",
    "full",
    "full_like",
    "linspace",
    "meshgrid",
    "ones",
    "ones_like",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
    "astype",
    "can_cast",
    "finfo",
    "iinfo",
    "isdtype",
    "result_type",
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
    "abs",
    "acos",
    "acosh",
    "add",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_invert",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "ceil",
    "clip",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "divide",
    "equal",
    "exp",
    "expm1",
    "floor",
    "floor_divide",
    "greater",
    "greater_equal",
    "hypot",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "maximum",
    "minimum",
    "multiply",
    "negative",
    "nextafter",
    "not_equal",
    "positive",
    "pow",
    "real",
    "reciprocal",
    "remainder",
    "round",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "square",
    "sqrt",
    "subtract",
    "tan",
    "tanh",
    "trunc",
    "__array_namespace_info__",
    "__array_api_version__",
    "take",
    "take_along_axis",
    "matmul",
    "matrix_transpose",
    "tensordot",
    "vecdot",
    "broadcast_arrays",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "moveaxis",
    "permute_dims",
    "repeat",
    "reshape",
    "roll",
    "squeeze",
    "stack",
    "tile",
    "unstack",
    "argmax",
    "argmin",
    "count_nonzero",
    "nonzero",
    "searchsorted",
    "where",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "argsort",
    "sort",
    "cumulative_prod",
    "cumulative_sum",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "sum",
    "var",
    "all",
    "any",
    "diff",
]
LINALG = [
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "inv",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "matrix_transpose",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "svd",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]
FFT = [
    "fft",
    "ifft",
    "fftn",
    "ifftn",
    "rfft",
    "irfft",
    "rfftn",
    "irfftn",
    "hfft",
    "ihfft",
    "fftfreq",
    "rfftfreq",
    "fftshift",
    "ifftshift",
]


def test_all_names_of_array_api_exist() -> None:
    names = [*STANDARD, *(f"linalg.{name}" for name in LINALG), *(f"fft.{name}" for name in FFT)]
    missing = [
        name
        for name in names
        if not hasattr(getattr(mg, name.split(".")[0], None) if "." in name else mg, name.split(".")[-1])
    ]
    assert missing == []


def test_tensor_returns_array_namespace() -> None:
    def standardized(x: Any) -> Any:  # code in the style of libraries that accept arrays of any package
        xp = x.__array_namespace__()
        assert xp is mg and x.device == "mesh" and x.to_device("mesh") is x
        return (x - xp.mean(x, axis=0)) / xp.std(x, axis=0, correction=1)

    x = np.arange(12, dtype=np.float32).reshape(4, 3) ** 2
    compare(
        mg.compile(standardized, {"d": 3}, args=[x], in_specs=[mg.P("d")], target="cpu")(x),
        (x - x.mean(0)) / x.std(0, ddof=1),
    )


def test_type_queries_follow_array_api() -> None:
    def query_types(x: Any, i: Any) -> Any:
        assert (
            mg.result_type(x, i) == mg.bfloat16
            and mg.result_type(i, 2.5) == mg.float32
            and mg.result_type("int8", mg.int16) == np.int16
        )
        assert mg.can_cast(mg.int8, mg.float32) and not mg.can_cast(mg.float32, i)
        assert (
            mg.isdtype(x.dtype, "real floating")
            and mg.isdtype(i.dtype, ("bool", "integral"))
            and not mg.isdtype(i.dtype, mg.float32)
        )
        assert (
            mg.finfo(x).eps == float(ml_dtypes.finfo(mg.bfloat16).eps)
            and mg.finfo(mg.complex64).bits == 32
            and mg.iinfo(i).max == 2**31 - 1
        )
        assert mg.float32(2.5) == 2.5 and mg.result_type(x, mg.float32(1)) == mg.float32
        return x.astype(mg.float32) + mg.asarray([1, 2], dtype=mg.int8)

    assert mg.trace(query_types, ["bf16[2]", "i32[2]"]).module.graph.outputs[0].type.dtype == "f32"
    info = mg.__array_namespace_info__()
    assert info.dtypes(kind="bool") == {"bool": np.dtype(bool)} and info.default_dtypes()["indexing"] == np.int32
    assert info.capabilities()["data-dependent shapes"] is False
    with pytest.raises(ProgramError, match="is not a kind of types"):
        mg.trace(lambda x: mg.isdtype(x.dtype, "floating"), ["f32[2]"])


def test_data_dependent_results_are_padded_to_given_size() -> None:
    x = np.array([[3, 0, 3], [5, 0, 1]], np.int32)

    def functions(x: Any) -> Any:
        return (
            mg.nonzero(x, size=6, fill_value=9),
            mg.unique_all(x, size=5),
            mg.unique_values(x, size=2),
            mg.unique_inverse(x, size=4),
            mg.unique_counts(x, size=4),
        )

    coordinates, (values, first, inverse, counts), first_two, by_inverse, by_counts = mg.compile(
        functions, {"d": 2}, args=[x], in_specs=[mg.P("d")], target="cpu"
    )(x)
    compare(coordinates, tuple(np.append(indices, [9, 9]).astype(np.int32) for indices in np.nonzero(x)))
    compare(
        [values, first, inverse, counts],
        [np.array(v, np.int32) for v in ([0, 1, 3, 5, 0], [1, 5, 0, 3, 0], [[2, 0, 2], [3, 0, 1]], [2, 1, 2, 1, 0])],
    )
    compare(
        [first_two, *by_inverse, *by_counts],
        [np.array(v, np.int32) for v in ([0, 1], [0, 1, 3, 5], [[2, 0, 2], [3, 0, 1]], [0, 1, 3, 5], [2, 1, 2, 1])],
    )
    for function in (mg.nonzero, mg.unique_values, mg.where):
        with pytest.raises(ProgramError, match=r"MG0104(?s:.)*size=\.\.\."):
            mg.trace(function, ["f32[3]"])


def test_from_dlpack_accepts_numpy_array() -> None:
    x = np.arange(3, dtype=np.float32)
    compare(mg.compile(lambda y: mg.from_dlpack(x) + y, {"d": 1}, args=[x], target="cpu")(x), x + x)
