"""Forms of a kernel agree up to rounding."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.codegen.tuning import comparing
from meshgen.codegen.tuning.comparing import allowed, differences
from meshgen.ir.graph import Graph
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.runtime.random_arrays import random_array
from tests.codegen.bodies import ONE, Body


def product(dtype: str = "bf16", result: str = "bf16") -> Graph:
    b = Body(f"{dtype}[32,64]", f"{dtype}[64,32]")
    return b.done(b.dot(b.inputs[0], b.inputs[1], ((1,), (0,)), dtype=result))


@pytest.mark.parametrize("most", [1e9, 0.0])
def test_rounding_is_allowed_and_a_wrong_element_is_not(most: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both where each element has a bound, and where one stands for all."""
    monkeypatch.setattr(comparing, "MOST_BOUNDED", most)
    body = product()
    args = [random_array(value.type, [0, number]) for number, value in enumerate(body.inputs)]
    (wanted,) = evaluate(body, args)
    bounds = allowed(body, ONE, 0, args, [wanted])
    rounded = np.nextafter(wanted, wanted.dtype.type(0))
    assert not [*differences([rounded], [wanted], bounds)]
    wrong = wanted.copy()
    wrong[3, 4] += wanted.dtype.type(np.abs(wanted).max())
    (text,) = differences([wrong], [wanted], bounds)
    assert text.startswith("1 of 1024 elements of result 0 differ, by up to")


def test_integers_must_be_equal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparing, "MOST_BOUNDED", 0.0)
    wanted = np.full((32, 32), 7, np.int32)
    bounds = allowed(product("i8", "i32"), ONE, 0, [], [wanted])
    assert not [*differences([wanted], [wanted], bounds)] and [*differences([wanted + 1], [wanted], bounds)]


def test_poison_that_both_leave_is_equal_and_that_one_leaves_is_not() -> None:
    own, bound = np.array([1.0, np.nan, np.inf], np.float32), np.zeros(3)
    assert not [*differences([own], [own], [bound])]
    assert [*differences([np.array([1.0, 2.0, np.inf], np.float32)], [own], [bound])]
    assert [*differences([np.array([1.0, np.nan, 3.0], np.float32)], [own], [bound])]
