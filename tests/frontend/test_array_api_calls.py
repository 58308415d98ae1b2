"""Call forms of the functions and tensors of the array-API standard: arguments, attributes and operators."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from tests.frontend.test_array_api import FFT, LINALG, STANDARD
from tests.frontend.test_array_api_semantics import BINARY, REAL_UNARY, assert_matches_numpy

# Call forms of the functions of the standard: the number of positional arguments, then the keywords.
CALLS = {
    "arange": "1 stop step dtype device", "asarray": "1 dtype device copy", "empty": "1 dtype device", "empty_like": "1 dtype device", "eye": "2 k dtype device",
    "from_dlpack": "1 device copy", "full": "2 dtype device", "full_like": "2 dtype device", "linspace": "3 dtype device endpoint", "meshgrid": "2 indexing",
    "ones": "1 dtype device", "ones_like": "1 dtype device", "tril": "1 k", "triu": "1 k", "zeros": "1 dtype device", "zeros_like": "1 dtype device",
    "astype": "2 copy device", "can_cast": "2", "finfo": "1", "iinfo": "1", "isdtype": "2", "result_type": "3", "clip": "1 min max", "take": "2 axis",
    "take_along_axis": "2 axis", "tensordot": "2 axes", "vecdot": "2 axis", "concat": "1 axis", "expand_dims": "1 axis", "flip": "1 axis", "moveaxis": "3",
    "permute_dims": "2", "repeat": "2 axis", "reshape": "2 copy", "roll": "2 axis", "squeeze": "2", "stack": "1 axis", "tile": "2", "unstack": "1 axis",
    "argmax": "1 axis keepdims", "argmin": "1 axis keepdims", "count_nonzero": "1 axis keepdims", "searchsorted": "2 side sorter", "where": "3",
    "argsort": "1 axis descending stable", "sort": "1 axis descending stable", "cumulative_prod": "1 axis dtype include_initial",
    "cumulative_sum": "1 axis dtype include_initial", "max": "1 axis keepdims", "mean": "1 axis keepdims", "min": "1 axis keepdims",
    "prod": "1 axis dtype keepdims", "std": "1 axis correction keepdims", "sum": "1 axis dtype keepdims", "var": "1 axis correction keepdims",
    "all": "1 axis keepdims", "any": "1 axis keepdims", "diff": "1 axis n prepend append", "matmul": "2", "broadcast_to": "2", "broadcast_arrays": "3",
    "linalg.cholesky": "1 upper", "linalg.cross": "2 axis", "linalg.diagonal": "1 offset", "linalg.matrix_norm": "1 keepdims ord", "linalg.matrix_power": "2",
    "linalg.matrix_rank": "1 rtol", "linalg.pinv": "1 rtol", "linalg.qr": "1 mode", "linalg.svd": "1 full_matrices", "linalg.trace": "1 offset dtype",
    "linalg.vector_norm": "1 axis keepdims ord", "linalg.solve": "2", "fft.fft": "1 n axis norm", "fft.rfftn": "1 s axes norm", "fft.fftfreq": "1 d dtype device",
    "fft.fftshift": "1 axes",
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_functions_accept_arguments_of_array_api(name: str) -> None:
    family, _, function_name = name.rpartition(".")
    count, *keywords = CALLS[name].split()
    signature = inspect.signature(getattr(getattr(mg, family) if family else mg, function_name))
    signature.bind(*range(int(count)), **dict.fromkeys(keywords, 0))


def test_tensors_have_attributes_and_operators_of_array_api() -> None:
    assert_matches_numpy(
        lambda xp: lambda x, y, b: {
            "T": x.T, "mT": x.mT, "neg": -x, "abs": abs(x), "pow": y**2, "rpow": 2.0**x, "rdiv": 1 / y, "rsub": 1 - x, "div": x // y, "mod": x % y,
            "and": b & ~b, "or": b | True, "xor": True ^ b, "less": x > 0, "matmul": x @ y.T, "shift": (b.astype("int32") << 2) >> 1,
            "in place": augmented(x, y),
        },
        *(np.array(rows, np.float32) for rows in ([[1, -2], [0.5, 4]], [[2, 3], [-1, 0.25]])), np.array([True, False]),
    )  # fmt: skip
    sizes = mg.trace(lambda x: [x, (x.shape, x.size, x.ndim, x.dtype)][0], ["f32[2,3]"])
    assert sizes.module.graph.outputs[0].type.shape == (2, 3)
    for conversion in (
        lambda x: bool(x),
        lambda x: float(x),
        lambda x: int(x),
        lambda x: complex(x),
        lambda x: range(x),
    ):
        with pytest.raises((ProgramError, AttributeError, TypeError)):
            mg.trace(conversion, ["f32[]"])


def augmented(x: Any, y: Any) -> Any:
    x = x + 0
    x += y
    x *= 2
    x -= 1
    x /= y
    return x


def test_all_names_of_array_api_are_tested() -> None:
    """Names without a call form in `CALLS` are element-wise functions, which are tested at special values, or names of
    types and constants.
    """
    tested = {*CALLS, *(f"linalg.{name}" for name in LINALG), *(f"fft.{name}" for name in FFT), *REAL_UNARY, *BINARY}
    rest = [name for name in STANDARD if name not in tested and callable(getattr(mg, name))]
    assert all(inspect.isclass(getattr(mg, name)) or name.startswith(("bitwise", "logical", "unique", "__")) or name in (
        "nonzero", "matrix_transpose", "broadcast_arrays", "conj", "imag", "sign", "bool") for name in rest)  # fmt: skip
