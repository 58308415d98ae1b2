"""`bench.torch_ops` for some operators, forward and with gradients, and its summary of refusals."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from bench.torch_ops import Outcome, operators, outcomes, summary

pytestmark = pytest.mark.filterwarnings("ignore")
NAMES = ("nn.functional.avg_pool2d", "scatter_reduce.amax", "linalg.lu_solve", "mH")


@pytest.mark.parametrize("gradients", [False, True])
def test_operator_samples_match_torch(gradients: bool) -> None:
    outcomes_of_samples = [outcome for op in operators(NAMES) for outcome in outcomes(op, "float32", 2, gradients)]
    assert {outcome.op for outcome in outcomes_of_samples} == set(NAMES)
    assert {(outcome.verdict, outcome.split) for outcome in outcomes_of_samples} <= {
        ("same", "same"),
        ("same", "not run"),
    }, outcomes_of_samples


def test_summary_lists_refusals_by_reason_and_wrong_results() -> None:
    outcomes_of_samples = [
        Outcome("nonzero", 0, "refused", "the size of nonzero's result is data"),
        Outcome("add", 0, "same", split="same"),
        Outcome("add", 1, "differs", "differs by 2"),
        Outcome("jit", 0, "not run"),
    ]
    text = summary(outcomes_of_samples, "forward")
    assert "| samples | 1 | 1 | 0 | 1 | 3 |" in text
    assert "Of 2 operators 0 (0.0 %) are right in all samples, 1 in some; of 1 samples there is no program" in text
    assert "| 1 | the size of the result is data | `nonzero` |" in text
    assert "- `add`, sample 1: differs; differs by 2" in text
