"""Arrays whose elements NumPy would misinterpret are rejected as arguments, weights and constants."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.compiled.executable import Executable
from meshgen.errors import ArgumentError, ProgramError

X = np.arange(4, dtype=np.float32)
MASKED = np.ma.masked_array(X, mask=[True, False, False, False])


class Sub(np.ndarray[Any, Any]):
    """A subclass of NumPy arrays whose elements mean the same as in plain arrays."""


class ArrayLike:
    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return X


@pytest.fixture(scope="module")
def double() -> Executable:
    return mg.compile(lambda x: x * 2, {"d": 2}, args=["f32[4]"], target="cpu")


REFUSED: dict[str, tuple[Any, str]] = {
    "masked": (MASKED, "a masked array"),
    "masked in a list": ([MASKED, MASKED], "a masked array"),
    "matrix": (X.view(np.matrix), "np.matrix"),
    "objects": (np.array([1, None, 2, 3]), "object"),
    "dates": (np.array(["2020"] * 4, "M8[D]"), "datetime64"),
    "spans": (np.ones(4, "m8[s]"), "timedelta64"),
    "structured": (np.ones(4, [("a", "f4")]), "structured"),
    "texts": (["a", "b"], "<U1"),
    "ragged": ([[1.0], [1.0, 2.0]], "cannot be converted to an array"),
}


@pytest.mark.parametrize(("argument", "text"), REFUSED.values(), ids=REFUSED)
def test_unsupported_array_is_rejected_as_argument_weight_and_constant(
    double: Executable, tmp_path: Path, argument: Any, text: str
) -> None:
    with pytest.raises(ArgumentError, match=f"MG0601: argument 'x' is .*{text}"):
        double(argument)
    with pytest.raises(ArgumentError, match=f"MG0601: weight 'x' is .*{text}"):
        double.save(tmp_path / "m.mgx", weights={"x": argument})
    with pytest.raises(ProgramError, match=f"{Path(__file__).name}:.*MG0104: an operand is .*{text}"):
        mg.trace(lambda x: mg.where(x > 0, x, argument), ["f32[4]"])


def test_sparse_array_is_rejected(double: Executable) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ArgumentError, match=r"a sparse array(?s:.)*toarray"):
        double(sparse.csr_array(np.ones((1, 4), np.float32)))


@pytest.mark.parametrize(
    "argument", [X, X.view(Sub), ArrayLike(), X[::-1][::-1], memoryview(X)], ids=lambda g: type(g).__name__
)
def test_array_like_argument_is_accepted(double: Executable, argument: Any) -> None:
    np.testing.assert_array_equal(double(argument), X * 2)


def test_nested_list_is_accepted_as_array() -> None:
    executable = mg.compile(lambda x: x * 2, {"d": 2}, args=["i64[2,2]"], target="cpu")
    np.testing.assert_array_equal(executable([[1, 2], [3, 4]]), [[2, 4], [6, 8]])


def test_argument_error_has_line_of_call(double: Executable) -> None:
    with pytest.raises(ArgumentError, match=f"^{__file__}:\\d+.*: error MG0601"):
        double(MASKED)


def test_array_with_dtype_unknown_to_jax_is_accepted() -> None:
    """PyTorch's tensors have dtypes that JAX does not know, so meshgen must not pass these dtypes to JAX."""
    pytest.importorskip("jax")

    class Kind:
        def __repr__(self) -> str:
            return "other.float32"

    class Other:
        dtype = Kind()

        def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
            return np.arange(4, dtype=np.float32)

    double = mg.compile(lambda x: x + x, {"d": 2}, args=["f32[4]"], target="cpu")
    np.testing.assert_array_equal(double(Other()), 2 * np.arange(4))
