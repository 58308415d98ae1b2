"""The times of `compile` by stage. Together with startup, saving and reporting, they add up to the time of the command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from meshgen.pipeline import Timing

PROGRAM = Path(__file__).parents[2] / "examples" / "transformer_block.mlir"
ATTEMPTS = 3  # chosen: on a busy machine, one of several short measurements may be slow
COMMAND = """
import json, sys, time
began = time.perf_counter()
from meshgen.cli import main
assert main(["compile", sys.argv[1], "-o", sys.argv[2], "--target", "cpu", "--json"]) == 0
print(time.perf_counter() - began, file=sys.stderr)
"""


def measured(module: Path) -> tuple[dict[str, float], float]:
    """Return the seconds of each stage of a compilation, and the total seconds that the command itself reports."""
    words = [sys.executable, "-c", COMMAND, str(PROGRAM), str(module)]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)["seconds"], float(ran.stderr.splitlines()[-1])


def test_stage_times_add_up_to_the_command_time(tmp_path: Path) -> None:
    """The sum of all times is within 5 % of the total that the command reports."""
    measurements = [measured(tmp_path / "m.mgx")]
    while len(measurements) < ATTEMPTS and sum(measurements[-1][0].values()) < 0.95 * measurements[-1][1]:
        measurements.append(measured(tmp_path / "m.mgx"))
    seconds, clock = measurements[-1]
    assert sum(seconds.values()) == pytest.approx(clock, rel=0.05)
    assert [*seconds][:2] == ["start", "import"] and {"save", "report"} < {*seconds}


def test_nested_stage_time_is_not_counted_twice() -> None:
    now = iter([0.0, 1.0, 4.0, 6.0])
    timing = Timing(clock=lambda: next(now))
    with timing.of("save"), timing.of("source"):
        pass
    assert timing.seconds == {"save": 3.0, "source": 3.0}
