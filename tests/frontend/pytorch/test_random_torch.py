"""Random PyTorch modules compute what torch computes; `python -m tests.frontend.pytorch.random_torch` runs many."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from tests.frontend.pytorch.random_torch import difference, fault_of, made  # noqa: E402
from tests.frontend.pytorch.torch_maker import STEPS  # noqa: E402
from tests.frontend.pytorch.torch_ways import WAYS  # noqa: E402
from tests.frontend.random_models import outcome  # noqa: E402
from tests.trials import trials  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
SEEDS = trials(5)


def test_random_modules_compute_what_torch_computes() -> None:
    outcomes = {seed: outcome(made(seed), fault_of) for seed in SEEDS}
    assert not {seed: each for seed, each in outcomes.items() if each[0] not in ("right", "not made")}
    assert sum(verdict == "right" for verdict, _ in outcomes.values()) > len(SEEDS) / 2


def test_random_modules_have_most_kinds_of_steps_and_ways() -> None:
    kinds = {kind for seed in range(60) for kind in made(seed).kinds}
    assert len(STEPS) >= 85 and {*WAYS} <= kinds and len(kinds & {*STEPS}) >= 0.8 * len(STEPS)


def test_wrong_results_are_faults() -> None:
    wanted = {"first": torch.ones(2), "rest": ([torch.arange(2)], None, 0.5)}
    found = {"first": torch.ones(2).numpy(), "rest": ([torch.arange(2).numpy()], None, 0.5)}
    assert not difference(found, wanted)
    assert "result 0: differs by 1" in difference(found | {"first": found["first"] + 1}, wanted)
    assert "result 0: int64[2] in place" in difference(found | {"first": found["rest"][0][0]}, wanted)
    assert "result 1: whole numbers differ" in difference(
        found | {"rest": ([torch.zeros(2).long()], None, 0.5)}, wanted
    )
    assert "in place of" in difference(found | {"rest": (found["rest"][0], None, 1)}, wanted)
    assert "in place of" in difference(tuple(found.values()), wanted)
