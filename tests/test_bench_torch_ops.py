"""Some operators of PyTorch's OpInfo database, forward and with gradients, and what the bench says of refusals."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from bench.torch_ops import Outcome, operators, outcomes, summary

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = ("nn.functional.avg_pool2d", "scatter_reduce.amax", "linalg.lu_solve", "mH")


@pytest.mark.parametrize("gradients", [False, True])
def test_samples_of_operators_are_right(gradients: bool) -> None:
    found = [each for op in operators(NAMES) for each in outcomes(op, "float32", 2, gradients)]
    assert {each.op for each in found} == set(NAMES)
    assert {(each.verdict, each.split) for each in found} <= {("same", "same"), ("same", "not run")}, found


def test_summary_lists_refusals_by_reason_and_what_is_wrong() -> None:
    found = [
        Outcome("nonzero", 0, "refused", "the size of nonzero's result is data"),
        Outcome("add", 0, "same", split="same"),
        Outcome("add", 1, "differs", "differs by 2"),
        Outcome("jit", 0, "not run"),
    ]
    text = summary(found, "forward")
    assert "| samples | 1 | 1 | 0 | 1 | 3 |" in text
    assert "Of 2 operators 0 (0.0 %) are right in all samples, 1 in some; of 1 samples there is no program" in text
    assert "| 1 | the size of the result is data | `nonzero` |" in text
    assert "- `add`, sample 1: differs; differs by 2" in text
