"""Random PyTorch modules compute torch's results; `python -m tests.frontend.pytorch.random_torch` tests many."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.frontend.pytorch.random_torch import difference, fault_of, random_module  # noqa: E402
from tests.frontend.pytorch.torch_maker import STEPS  # noqa: E402
from tests.frontend.pytorch.torch_ways import IMPORT_METHODS  # noqa: E402
from tests.frontend.random_models import outcome  # noqa: E402
from tests.trials import trials  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
SEEDS = trials(5)


def test_random_modules_match_torch() -> None:
    outcomes = {seed: outcome(random_module(seed), fault_of) for seed in SEEDS}
    assert not {seed: result for seed, result in outcomes.items() if result[0] not in ("right", "not built")}
    assert sum(verdict == "right" for verdict, _ in outcomes.values()) > len(SEEDS) / 2


def test_random_modules_cover_most_steps_and_all_imports() -> None:
    kinds = {kind for seed in range(60) for kind in random_module(seed).kinds}
    assert len(STEPS) >= 85 and {*IMPORT_METHODS} <= kinds and len(kinds & {*STEPS}) >= 0.8 * len(STEPS)


def test_difference_reports_wrong_results() -> None:
    expected = {"first": torch.ones(2), "rest": ([torch.arange(2)], None, 0.5)}
    actual = {"first": torch.ones(2).numpy(), "rest": ([torch.arange(2).numpy()], None, 0.5)}
    assert not difference(actual, expected)
    assert "result 0: differs by 1" in difference(actual | {"first": actual["first"] + 1}, expected)
    assert "result 0: int64[2] in place" in difference(actual | {"first": actual["rest"][0][0]}, expected)
    assert "result 1: whole numbers differ" in difference(
        actual | {"rest": ([torch.zeros(2).long()], None, 0.5)}, expected
    )
    assert "in place of" in difference(actual | {"rest": (actual["rest"][0], None, 1)}, expected)
    assert "in place of" in difference(tuple(actual.values()), expected)
