"""PyTorch's operations, compared with stored results of torch (`tests.frontend.pytorch.torch_cases`). Torch need not be
installed.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.errors import ProgramError
from meshgen.frontend.torch.ops import TORCH_OPS
from meshgen.frontend.torch.program import Exported, read_exported
from tests.frontend.pytorch.cases import CASES_FILE, arguments, array_of

CASES: dict[str, Any] = json.loads(gzip.decompress(CASES_FILE.read_bytes()))


def leaves(result: Any) -> Iterator[np.ndarray[Any, Any]]:
    """Yield the arrays of a result in order."""
    yield from map(np.asarray, result if isinstance(result, tuple) else (result,))


def check(name: str, results: Any, expected: list[np.ndarray[Any, Any]]) -> None:
    """Require equal types, and numbers within a few roundings, because torch sums in another order."""
    actual = list(leaves(results))
    assert len(actual) >= len(expected), name
    for array, reference in zip(actual, expected, strict=False):
        assert (array.dtype, array.shape) == (reference.dtype, reference.shape)
        bound = 2e-3 if reference.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(array.astype(float), reference.astype(float), rtol=bound, atol=bound)


def exported(row: Any) -> Exported:
    return Exported(row["document"], {}, {key: array_of(constant) for key, constant in row["constants"].items()})


@pytest.mark.parametrize("name", CASES)
def test_operation_matches_stored_results_of_torch(name: str) -> None:
    row = CASES[name]
    module, _ = read_exported(exported(row), None)
    args = arguments(name, tuple(row["arguments"]))
    rows = [mg.P("d") if array.ndim else None for array in args]
    results = mg.compile(module, {"d": 2}, in_specs=rows, target="cpu")(*args)
    check(name, results, [array_of(array) for array in row["results"]])


def targets(graph: Any) -> Iterator[str]:
    for node in graph["nodes"]:
        yield node["target"]


def test_most_operations_have_test_cases() -> None:
    """Overloads of one name count once. Operations without a case are gradients, synonyms, and operations that
    torch.export never emits.
    """
    called = {name.split(".")[3].rstrip("_") for row in CASES.values() for name in targets(row["document"]["graph_module"]["graph"]) if name.startswith("torch.ops.aten")}  # fmt: skip
    supported = {name.partition(".")[0] for name in TORCH_OPS}
    assert len(called & supported) > 200


def renamed(row: Any, old: str, new: str) -> Any:
    return json.loads(json.dumps(row).replace(old, new))


def test_unsupported_operations_are_listed_with_counts() -> None:
    row = renamed(renamed(CASES["scalars"], "aten.add.", "aten.fictitious."), "aten.rsub.", "mine.other.")
    with pytest.raises(ProgramError) as error:
        read_exported(exported(row), None)
    texts = [diagnostic.message for diagnostic in error.value.diagnostics]
    assert texts == [
        "aten.fictitious.Tensor is not supported (2 times)",
        "mine.other.Scalar is not supported (2 times)",
    ]
    assert {diagnostic.code for diagnostic in error.value.diagnostics} == {"MG0103"}


def test_result_type_other_than_declared_is_rejected() -> None:
    row = json.loads(json.dumps(CASES["linear"]))
    values = row["document"]["graph_module"]["graph"]["tensor_values"]
    values["linear"]["dtype"] = 8
    with pytest.raises(ProgramError, match="torch declares f64"):
        read_exported(exported(row), None)
