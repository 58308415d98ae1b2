"""Arrays that NumPy would read as something else than they mean are refused as arguments, weights and constants."""

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
    """A subclass that means what its numbers mean."""


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


@pytest.mark.parametrize(("given", "text"), REFUSED.values(), ids=REFUSED)
def test_other_meanings_are_refused(double: Executable, tmp_path: Path, given: Any, text: str) -> None:
    with pytest.raises(ArgumentError, match=f"MG0601: argument 'x' is .*{text}"):
        double(given)
    with pytest.raises(ArgumentError, match=f"MG0601: weight 'x' is .*{text}"):
        double.save(tmp_path / "m.mgx", weights={"x": given})
    with pytest.raises(ProgramError, match=f"{Path(__file__).name}:.*MG0104: an operand is .*{text}"):
        mg.trace(lambda x: mg.where(x > 0, x, given), ["f32[4]"])


def test_a_sparse_array_is_refused(double: Executable) -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(ArgumentError, match=r"a sparse array(?s:.)*toarray"):
        double(sparse.csr_array(np.ones((1, 4), np.float32)))


@pytest.mark.parametrize(
    "given", [X, X.view(Sub), ArrayLike(), X[::-1][::-1], memoryview(X)], ids=lambda g: type(g).__name__
)
def test_what_is_like_an_array_is_taken(double: Executable, given: Any) -> None:
    np.testing.assert_array_equal(double(given), X * 2)


def test_lists_are_arrays_where_an_array_is_taken() -> None:
    executable = mg.compile(lambda x: x * 2, {"d": 2}, args=["i64[2,2]"], target="cpu")
    np.testing.assert_array_equal(executable([[1, 2], [3, 4]]), [[2, 4], [6, 8]])


def test_faults_of_a_call_are_at_the_line_of_the_call(double: Executable) -> None:
    with pytest.raises(ArgumentError, match=f"^{__file__}:\\d+.*: error MG0601"):
        double(MASKED)


def test_arrays_of_libraries_whose_types_jax_does_not_know() -> None:
    """As tensors of PyTorch are: JAX must not be asked about their types."""
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
