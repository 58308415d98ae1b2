"""Run all random campaigns with a new seed: random programs, mutated texts, modules, PTX and sources, and fuzzed
interfaces.

    python -m tests.nightly [--count 1000] [--seed YYYYMMDD] [--seconds 1800] [NAME ...]        or: make nightly
    COUNT=... SEED=...

Each campaign is a command that runs alone; the summary prints it with its seed. A mutant that survives is a missing
test and is listed. A campaign that finds a fault of meshgen fails. A campaign that takes longer than --seconds is
stopped, and does not fail. Inputs that show a fault are kept in build/nightly.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import NamedTuple

from tests.sources import ROOT

KEEP = ROOT / "build" / "nightly"
# Lines of a campaign's output that the summary repeats: mutants that no test detected, and inputs that show a fault.
_FINDING = re.compile(
    r"SURVIVED|^(same bits|silent): |^\d+: (crashed|slow|numbers differ)|\bfailed\b(?<! 0 failed)|^Traceback"
)


class Campaign(NamedTuple):
    """A random campaign: its command without count and seed, and its number of trials for each thousand of --count."""

    command: str
    trials: int
    keeps: bool = False  # whether the command accepts --keep
    count_option: str = "--count"

    def words(self, count: int, seed: int) -> list[str]:
        trials = max(1, count * self.trials // 1000)
        keep = ["--keep", str(KEEP)] if self.keeps else []
        return ["-m", *shlex.split(self.command), self.count_option, str(trials), "--seed", str(seed), *keep]


# The trials of each campaign are chosen so that --count 1000 takes about 25 CPU minutes. Mutants of sources take half
# of them, because each runs test files.
CAMPAIGNS = {
    "programs": Campaign("meshgen check", 1000, keeps=True, count_option="--random"),
    "texts": Campaign("tests.mutants", 3000, keeps=True),
    "modules": Campaign("tests.runtime.mutate_modules", 2000, keeps=True),
    "loader": Campaign("tests.native.mutate", 1000, keeps=True),
    "ptx": Campaign(
        "tests.emulator.mutate_ptx examples/transformer_block.mlir tests/data/bf16/mlp_train_dp.mlir", 1000
    ),
    "sessions": Campaign("tests.runtime.session_fuzz", 1000),
    "kills": Campaign("tests.kill_compile", 20),
    "onnx": Campaign("tests.frontend.random_onnx", 500),
    "recurrences": Campaign("tests.codegen.random_recurrences", 300),
    "sources": Campaign("tests.source_mutants", 50),
}


@dataclass(frozen=True)
class Outcome:
    """How a campaign ended.

    Attributes:
        code: exit code, or None for a stopped campaign.
        findings: lines of its output that name a survivor or a fault.
    """

    code: int | None
    findings: Sequence[str]
    seconds: float

    @property
    def verdict(self) -> str:
        return "stopped" if self.code is None else "failed" if self.code else "done"


def run(words: Sequence[str], limit_seconds: float, echo: Callable[[str], object] = sys.stdout.write) -> Outcome:
    """Run a campaign with this Python, in a process group of its own. After `limit_seconds` the group is killed."""
    begin, findings = time.monotonic(), list[str]()
    settings = os.environ | {"OPENBLAS_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, *words], cwd=ROOT, env=settings, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    ) as process:  # fmt: skip
        stopped = threading.Event()

        def stop() -> None:
            stopped.set()
            os.killpg(process.pid, signal.SIGKILL)

        timer = threading.Timer(limit_seconds, stop)
        timer.start()
        assert process.stdout is not None
        for line in process.stdout:
            echo(line)
            if _FINDING.search(line):
                findings.append(line.rstrip())
        code = process.wait()
        timer.cancel()
    return Outcome(None if stopped.is_set() else code, findings, time.monotonic() - begin)


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.nightly", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"campaigns ({', '.join(CAMPAIGNS)}; default: all)")
    parser.add_argument("--count", type=int, default=1000, metavar="N", help="scales the trials of all campaigns")
    parser.add_argument("--seed", type=int, default=int(f"{datetime.now(UTC):%Y%m%d}"), metavar="N")
    parser.add_argument("--seconds", type=float, default=1800, metavar="S", help="limit of each campaign (1800)")
    options = parser.parse_args(words)
    if unknown := [name for name in options.names if name not in CAMPAIGNS]:
        parser.error(f"unknown campaign '{unknown[0]}'; the campaigns are {', '.join(CAMPAIGNS)}")
    KEEP.mkdir(parents=True, exist_ok=True)
    outcomes: dict[str, Outcome] = {}
    for name in options.names or CAMPAIGNS:
        command = CAMPAIGNS[name].words(options.count, options.seed)
        sys.stdout.write(f"== {name}: python {shlex.join(command)}\n")
        sys.stdout.flush()
        outcomes[name] = run(command, options.seconds)
    sys.stdout.write(summary(outcomes))
    return 1 if any(outcome.code for outcome in outcomes.values()) else 0


def summary(outcomes: dict[str, Outcome]) -> str:
    """Return one line for each campaign, followed by its findings."""
    lines = ["== summary"]
    for name, outcome in outcomes.items():
        lines.append(f"{name:12} {outcome.verdict:8} {outcome.seconds:6.0f} s  {len(outcome.findings)} findings")
        lines += [f"    {finding}" for finding in outcome.findings]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
