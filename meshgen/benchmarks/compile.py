"""CPU time of compilation: of each stage up to the schedule in this process, and of the whole command in a process of
its own.

The programs are stacks of GPT layers that JAX lowers (`stack.py`), or `.mlir` files: 8 and 32 layers on 8 devices, 8
layers on 16,384 devices. The command writes a module for sm_90, with an empty kernel cache (`cold`) and with a filled
one (`warm`).
"""

from __future__ import annotations

import argparse
import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from meshgen.benchmarks.records import Record
from meshgen.benchmarks.samples import summary
from meshgen.benchmarks.stack import LAYERS, stack
from meshgen.benchmarks.suite import Suite, Take, no_options
from meshgen.errors import Diagnostic, UsageError
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options as Choice
from meshgen.pipeline import Timing, run_stages

TITLES = {
    "program": "program", "what": "what", "cache": "cache", "us": "CPU time (us)", "least_us": "least (us)", "spread": "spread",
    "schedule_bytes": "schedule (B)",
}  # fmt: skip
STACKS = {"gpt-8-layers": (LAYERS, 2, 4), "gpt-32-layers": (4 * LAYERS, 2, 4), "gpt-16384-devices": (LAYERS, 128, 128)}


def run(options: argparse.Namespace, take: Take) -> Mapping[str, Any]:
    """Measure each named program. Raises UsageError: MG0001, MG0002; MissingError MG0602 without JAX; MeshgenError for
    invalid programs.
    """
    for name in options.names or STACKS:
        text = _program_text(name)
        for record in (*stages(Path(name).name, text, options.runs), *commands(Path(name).name, text, options.runs)):
            take(record)
    return {"clock": "CPU seconds of the process"}


def _program_text(name: str) -> str:
    if name in STACKS:
        return stack(*STACKS[name])
    if not name.endswith(".mlir"):
        text = f"unknown program '{name:.60}'"
        raise UsageError(Diagnostic("MG0001", text, hint=f"name .mlir files, or some of {', '.join(STACKS)}"))
    try:
        return Path(name).read_text()
    except OSError as error:
        raise UsageError(Diagnostic("MG0002", f"cannot read {name}: {error.strerror}")) from error


def stages(name: str, text: str, runs: int) -> Iterator[Record]:
    """Yield a record per stage, and one record of all stages that includes the size of the schedule's text."""
    samples: dict[str, list[float]] = {}
    size = 0
    for _ in range(runs):
        gc.collect()
        timing = Timing(clock=time.process_time)
        with timing.of("import"):
            module = parse_text(text)
        last = run_stages(module, Choice("cpu", "local"), timing, "schedule")["schedule"]
        size = len(print_text(last))
        for stage, seconds in (timing.seconds | {"all stages": sum(timing.seconds.values())}).items():
            samples.setdefault(stage, []).append(seconds)
    for stage, seconds in samples.items():
        extra_fields = {"schedule_bytes": size} if stage == "all stages" else {}
        yield {"suite": "compile", "program": name, "what": stage, **summary(seconds), **extra_fields}


def commands(name: str, text: str, runs: int) -> Iterator[Record]:
    """Measure `meshgen compile` with cold and then with warm kernel caches."""
    with tempfile.TemporaryDirectory() as folder_name:
        program = Path(folder_name, "program.mlir")
        program.write_text(text)
        command = [sys.executable, "-m", "meshgen", "compile", str(program), "-o", str(Path(folder_name, "module.mgx"))]
        folders = {
            "cold": [f"{folder_name}/cache{run}" for run in range(runs)],
            "warm": [f"{folder_name}/cache0"] * runs,
        }
        for cache, cache_folders in folders.items():
            seconds = [_child_seconds(command, folder) for folder in cache_folders]
            yield {"suite": "compile", "program": name, "what": "command", "cache": cache, **summary(seconds)}


def _child_seconds(command: Sequence[str], cache: str) -> float:
    """Run a command in a process, and return the CPU seconds of the process and its child processes."""
    paths = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = os.environ | {"MESHGEN_CACHE_DIR": cache, "PYTHONPATH": paths}
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


SUITE = Suite(
    "CPU time of every stage, and of the command with a cold and a warm kernel cache", TITLES, no_options, run
)
