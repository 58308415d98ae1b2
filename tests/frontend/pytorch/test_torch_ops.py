"""PyTorch's operations against what torch computed: programs and numbers that `tests.frontend.pytorch.torch_cases` wrote. Torch need not be installed."""

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
from tests.frontend.pytorch.cases import PLACE, arguments, array_of

CASES: dict[str, Any] = json.loads(gzip.decompress(PLACE.read_bytes()))


def leaves(result: Any) -> Iterator[np.ndarray[Any, Any]]:
    """The arrays of a result in order."""
    yield from map(np.asarray, result if isinstance(result, tuple) else (result,))


def check(name: str, results: Any, wanted: list[np.ndarray[Any, Any]]) -> None:
    """Types are equal, numbers are within a few roundings: the order of sums is not torch's."""
    found = list(leaves(results))
    assert len(found) >= len(wanted), name
    for got, want in zip(found, wanted, strict=False):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        bound = 2e-3 if want.dtype == np.float16 else 2e-5
        np.testing.assert_allclose(got.astype(float), want.astype(float), rtol=bound, atol=bound)


def exported(row: Any) -> Exported:
    return Exported(row["document"], {}, {key: array_of(each) for key, each in row["constants"].items()})


@pytest.mark.parametrize("name", CASES)
def test_an_operation_gives_what_torch_gives(name: str) -> None:
    row = CASES[name]
    module, _ = read_exported(exported(row), None)
    given = arguments(name, tuple(row["arguments"]))
    rows = [mg.P("d") if each.ndim else None for each in given]
    results = mg.compile(module, {"d": 2}, in_specs=rows, target="cpu")(*given)
    check(name, results, [array_of(each) for each in row["results"]])


def targets(graph: Any) -> Iterator[str]:
    for node in graph["nodes"]:
        yield node["target"]


def test_most_operations_have_a_case() -> None:
    """Names without overloads; what is left is said in words here: gradients, other spellings, and what exporting a function does not give."""
    called = {name.split(".")[3].rstrip("_") for row in CASES.values() for name in targets(row["document"]["graph_module"]["graph"]) if name.startswith("torch.ops.aten")}  # fmt: skip
    known = {name.partition(".")[0] for name in TORCH_OPS}
    assert len(called & known) > 200


def renamed(row: Any, old: str, new: str) -> Any:
    return json.loads(json.dumps(row).replace(old, new))


def test_all_that_is_not_supported_is_listed_at_once_with_counts() -> None:
    row = renamed(renamed(CASES["scalars"], "aten.add.", "aten.fictitious."), "aten.rsub.", "mine.other.")
    with pytest.raises(ProgramError) as refused:
        read_exported(exported(row), None)
    texts = [each.message for each in refused.value.diagnostics]
    assert texts == [
        "aten.fictitious.Tensor is not supported (2 times)",
        "mine.other.Scalar is not supported (2 times)",
    ]
    assert {each.code for each in refused.value.diagnostics} == {"MG0103"}


def test_a_result_of_another_type_than_torchs_is_refused() -> None:
    row = json.loads(json.dumps(CASES["linear"]))
    values = row["document"]["graph_module"]["graph"]["tensor_values"]
    values["linear"]["dtype"] = 8
    with pytest.raises(ProgramError, match="torch declares f64"):
        read_exported(exported(row), None)
