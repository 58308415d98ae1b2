"""Tests of the comparison of kernel variants, which allows rounding differences."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.codegen.tuning import result_comparison as comparing
from meshgen.codegen.tuning.result_comparison import allowed, differences
from meshgen.ir.graph import Graph
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.runtime.random_arrays import random_array
from tests.codegen.bodies import ONE, Body


def product(dtype: str = "bf16", result: str = "bf16") -> Graph:
    b = Body(f"{dtype}[32,64]", f"{dtype}[64,32]")
    return b.done(b.dot(b.inputs[0], b.inputs[1], ((1,), (0,)), dtype=result))


@pytest.mark.parametrize("limit", [1e9, 0.0])
def test_comparison_allows_rounding_but_no_wrong_element(limit: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a bound per element, and one bound for all elements."""
    monkeypatch.setattr(comparing, "MOST_BOUNDED", limit)
    body = product()
    args = [random_array(value.type, [0, seed]) for seed, value in enumerate(body.inputs)]
    (expected,) = evaluate(body, args)
    bounds = allowed(body, ONE, 0, args, [expected])
    rounded = np.nextafter(expected, expected.dtype.type(0))
    assert not [*differences([rounded], [expected], bounds)]
    wrong = expected.copy()
    wrong[3, 4] += expected.dtype.type(np.abs(expected).max())
    (text,) = differences([wrong], [expected], bounds)
    assert text.startswith("1 of 1024 elements of result 0 differ, by up to")


def test_comparison_requires_equal_integers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "MOST_BOUNDED", 0.0)
    expected = np.full((32, 32), 7, np.int32)
    bounds = allowed(product("i8", "i32"), ONE, 0, [], [expected])
    assert not [*differences([expected], [expected], bounds)] and [*differences([expected + 1], [expected], bounds)]


def test_elements_left_poisoned_by_only_one_variant_differ() -> None:
    poisoned, bound = np.array([1.0, np.nan, np.inf], np.float32), np.zeros(3)
    assert not [*differences([poisoned], [poisoned], [bound])]
    assert [*differences([np.array([1.0, 2.0, np.inf], np.float32)], [poisoned], [bound])]
    assert [*differences([np.array([1.0, np.nan, 3.0], np.float32)], [poisoned], [bound])]
