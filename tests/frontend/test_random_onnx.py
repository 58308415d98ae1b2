"""Random ONNX models match the `onnx` package's reference; `python -m tests.frontend.random_onnx` tests many."""

from __future__ import annotations

import pytest

pytest.importorskip("onnx")

from tests.frontend.onnx_maker import STEPS
from tests.frontend.random_onnx import difference, fault_of, random_model
from tests.trials import trials

SEEDS = trials(16)


def test_random_onnx_models_match_reference() -> None:
    faults = {seed: fault for seed in SEEDS if (fault := fault_of(random_model(seed)))}
    assert not faults


def test_random_onnx_models_cover_most_steps() -> None:
    kinds = {kind for seed in SEEDS for kind in random_model(seed).kinds}
    assert len(STEPS) >= 45 and len(kinds) >= 0.8 * len(STEPS)


def test_wrong_onnx_results_are_reported() -> None:
    builder = random_model(1)
    name = next(name for name in builder.model()[1] if builder.values[name].dtype == "float32")
    wrong = builder.values[name] + 1
    assert difference(wrong, builder.values[name])
    builder.values[name] = wrong
    assert f"{name}: differs by 1" in fault_of(builder)
