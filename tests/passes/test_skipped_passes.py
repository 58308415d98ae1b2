"""Tests that no pass is needed for correct results: programs planned without one of the passes compute the same
results.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from meshgen import api
from meshgen.passes import PASSES
from meshgen.pipeline import Timing, run_stages
from meshgen.testing.oracle import check
from meshgen.testing.random_programs import options_of, program_of
from tests.trials import trials

SEEDS = 2  # programs per pass, with different seeds for each pass; chosen: a few seconds per pass


@pytest.mark.parametrize("trial", trials(1))
@pytest.mark.parametrize("name", PASSES)
def test_random_programs_are_correct_without_each_pass(name: str, trial: int) -> None:
    first = SEEDS * (trial * len(PASSES) + list(PASSES).index(name))
    for seed in range(first, first + SEEDS):
        options = replace(options_of(seed), skip=(name,))
        timing = Timing()
        program = program_of(seed)
        result = check(program, pipeline=lambda module, o=options, t=timing: run_stages(module, o, t, "fuse")["fuse"])
        assert result.ok, f"seed {seed}: {result.faults}"
        assert name not in timing.passes


def test_random_programs_are_correct_without_any_pass() -> None:
    for seed in range(20):
        options = replace(options_of(seed), skip=tuple(PASSES))
        timing = Timing()
        result = check(
            program_of(seed), pipeline=lambda module, o=options, t=timing: run_stages(module, o, t, "fuse")["fuse"]
        )
        assert result.ok and not timing.passes, f"seed {seed}: {result.faults}"


@pytest.mark.parametrize("name", ["collective-cse", "reshard-replan", "all-gather-sink", "collective-combine"])
def test_volume_formula_describes_the_program_without_the_pass(name: str) -> None:
    path = Path(__file__).parent / "gains" / f"{name}.mlir"
    executable = api.plan(str(path), target="cpu", skip=[name])
    volume = executable.volume
    assert volume is not None and volume.counts == executable.comms.counts
    assert volume.formula.at(executable.mesh) == executable.comms.ring_bytes > 0
