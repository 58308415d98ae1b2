"""Performance over time. `bench/results/trend.jsonl` has one line for each measured commit, and `docs/performance.md`
plots them.

    python -m bench.trend            measures this checkout, and adds or replaces its line; `make bench-trend` does this
    python -m bench.trend --tree FOLDER --commit HASH --date YYYY-MM-DD      measures another checkout

A line has four figures for each of a dozen small programs: the instructions that planning executes, the launches and
bytes of the plan, and its predicted step. The programs are those of this checkout, even if another tree is measured.

Cachegrind, a tool of valgrind, counts instructions. A process imports meshgen and plans another program first, so that
most modules are loaded. Then it forks an idle process, and a process for each program. Cachegrind writes a total for
each process. The instructions of a program are the total of its process minus the total of the idle process. String
hashes are fixed. Two runs differ by less than 0.5 %; times would differ by more.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results" / "trend.jsonl"
TARGET = "cuda:sm_90"
_DATA = ROOT / "tests" / "data" / "bf16"
WARM_UP = _DATA / "mlp_train_dp.mlir"
PROGRAMS = {
    "transformer_block": ROOT / "examples" / "transformer_block.mlir",
    **{
        name: _DATA / f"{name}.mlir"
        for name in (
            "attn_tp", "block_train_dp_tp", "conv_halo", "gpt2_train", "layernorm_sharded", "llama_train", "mamba_forward",
            "mixtral_forward", "moe_ep_nohint", "resnet_train", "xent_vocab_onehot",
        )
    },
}  # fmt: skip
_OF_PROCESS = "cachegrind.%p"


def plan(path: Path) -> dict[str, Any]:
    """Plan a program with the meshgen on Python's path, and return the figures of the plan."""
    from meshgen import api

    cost = api.plan(str(path), target=TARGET).cost
    return {"launches": cost.kernels, "bytes_sent": cost.ring_bytes, "step_us": round(cost.step_seconds * 1e6, 3)}


def fork_plans() -> None:
    """Plan each program in its own process, and print the process ids by name. The name '' stands for the idle process."""
    plan(WARM_UP)
    processes: dict[str, int] = {}
    for name in ("", *PROGRAMS):
        pid = os.fork()
        if not pid:
            if name:
                plan(PROGRAMS[name])
            os._exit(0)
        _, status = os.waitpid(pid, 0)
        if status:
            sys.exit(f"planning {name or 'nothing'} failed")
        processes[name] = pid
    sys.stdout.write(json.dumps(processes) + "\n")


def _run(tree: Path, words: Sequence[str], prefix: Sequence[str] = ()) -> Any:
    """Run this file with the meshgen in the folder `tree`, and return the JSON that it prints."""
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "MESHGEN"))}
    settings |= {"PYTHONPATH": str(tree), "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
    command = [*prefix, sys.executable, __file__, *words]
    completed = subprocess.run(command, cwd=tree, env=settings, text=True, capture_output=True)
    if completed.returncode:
        sys.exit(f"{' '.join(command)}: exit code {completed.returncode}\n{completed.stderr[-2000:]}")
    return json.loads(completed.stdout.splitlines()[-1])


def instructions(tree: Path) -> dict[str, int]:
    """Return the number of instructions that planning each program executes."""
    with tempfile.TemporaryDirectory() as folder:
        counter = ["valgrind", "--tool=cachegrind", "--cache-sim=no", f"--cachegrind-out-file={folder}/{_OF_PROCESS}"]
        processes = _run(tree, ["--fork"], counter)
        totals = {
            name: total_of(Path(folder, _OF_PROCESS.replace("%p", str(pid))).read_text())
            for name, pid in processes.items()
        }
    return {name: totals[name] - totals[""] for name in PROGRAMS}


def total_of(text: str) -> int:
    """Return the number of instructions of a process, read from the text of cachegrind's file."""
    events, summary = (re.search(rf"^{word}: (.*)$", text, re.MULTILINE) for word in ("events", "summary"))
    if not events or not summary:
        raise ValueError("cachegrind's file has no events or no summary")
    return int(dict(zip(events[1].split(), summary[1].split(), strict=True))["Ir"])


def measured(tree: Path, commit: str, date: str) -> dict[str, Any]:
    """Measure the meshgen in the folder `tree`. Plans without valgrind come first, so that Python's bytecode files
    exist.
    """
    figures = _run(tree, ["--plans"])
    counts = instructions(tree)
    programs = {name: {"instructions": counts[name], **figures[name]} for name in PROGRAMS}
    return {"commit": commit, "date": date, "python": platform.python_version(), "programs": programs}


def added(lines: Sequence[str], line: Mapping[str, Any]) -> list[str]:
    """Return the lines ordered by date, with `line` in place of the line for the same commit, or added if there is
    none.
    """
    records = [record for record in map(json.loads, lines) if record["commit"] != line["commit"]]
    return [json.dumps(record) for record in sorted([*records, line], key=lambda record: record["date"])]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.trend", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--tree", type=Path, default=ROOT, metavar="FOLDER", help="the checkout that is measured (this one)"
    )
    parser.add_argument("--commit", metavar="HASH", help="the name of its commit (git's)")
    parser.add_argument("--date", metavar="YYYY-MM-DDTHH:MM", help="the date of its commit (git's)")
    parser.add_argument("--output", type=Path, default=RESULTS, metavar="FILE")
    parser.add_argument("--plans", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--fork", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.plans:
        sys.stdout.write(json.dumps({name: plan(path) for name, path in PROGRAMS.items()}) + "\n")
    elif options.fork:
        fork_plans()
    else:
        commit, date = _git(options.tree)
        line = measured(options.tree.resolve(), options.commit or commit, options.date or date)
        lines = options.output.read_text().splitlines() if options.output.exists() else []
        options.output.write_text("".join(f"{text}\n" for text in added(lines, line)))
        total = sum(row["instructions"] for row in line["programs"].values())
        sys.stdout.write(f"{line['commit']}: {total / 1e9:.2f}e9 instructions for {len(PROGRAMS)} programs\n")


def _git(tree: Path) -> tuple[str, str]:
    """Return the short hash and the date of a tree's commit, or empty strings outside a repository."""
    command = ["git", "log", "-1", "--format=%h %cd", "--date=format:%Y-%m-%dT%H:%M", "--abbrev=8"]
    words = subprocess.run(command, cwd=tree, text=True, capture_output=True).stdout.split()
    return (words[0], words[1]) if len(words) == 2 else ("", "")


if __name__ == "__main__":
    main()
