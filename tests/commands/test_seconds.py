"""What `compile` says of where time went is all of it: starting, saving and reporting too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from meshgen.pipeline import Timing

PROGRAM = Path(__file__).parents[2] / "examples" / "transformer_block.mlir"
ATTEMPTS = 3  # on a busy machine what is short may take long
COMMAND = """
import json, sys, time
began = time.perf_counter()
from meshgen.cli import main
assert main(["compile", sys.argv[1], "-o", sys.argv[2], "--target", "cpu", "--json"]) == 0
print(time.perf_counter() - began, file=sys.stderr)
"""


def measured(place: Path) -> tuple[dict[str, float], float]:
    """The seconds of each stage of a command, and those on its own clock."""
    words = [sys.executable, "-c", COMMAND, str(PROGRAM), str(place)]
    ran = subprocess.run(words, capture_output=True, text=True, check=True)
    return json.loads(ran.stdout)["seconds"], float(ran.stderr.splitlines()[-1])


def test_the_stages_account_for_the_whole_command(tmp_path: Path) -> None:
    """Within 5 % of its own clock."""
    found = [measured(tmp_path / "m.mgx")]
    while len(found) < ATTEMPTS and sum(found[-1][0].values()) < 0.95 * found[-1][1]:
        found.append(measured(tmp_path / "m.mgx"))
    seconds, clock = found[-1]
    assert sum(seconds.values()) == pytest.approx(clock, rel=0.05)
    assert [*seconds][:2] == ["start", "import"] and {"save", "report"} < {*seconds}


def test_what_is_timed_within_a_stage_is_not_counted_twice() -> None:
    now = iter([0.0, 1.0, 4.0, 6.0])
    timing = Timing(clock=lambda: next(now))
    with timing.of("save"), timing.of("source"):
        pass
    assert timing.seconds == {"save": 3.0, "source": 3.0}
