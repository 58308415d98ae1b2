"""Times of planning, saving and loading a program with large constants, and the size of its file. No GPU is needed.

The program is a chain of GEMMs with constant weights on 8 devices, planned in this process.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import meshgen as mg
from meshgen.benchmarks.records import Record
from meshgen.benchmarks.samples import summary
from meshgen.benchmarks.suite import Options, Suite, Take
from meshgen.numbers import positive

SIDE = 4096  # rows and columns of an f32 weight, which has 64 MiB
KIB, MIB = 1 << 10, 1 << 20
TITLES = {
    "what": "what", "size": "weights (B)", "us": "time (us)", "least_us": "least (us)", "spread": "spread", "file_bytes": "file (B)",
    "peak_bytes": "peak memory (B)",
}  # fmt: skip


def add_options(group: Options) -> None:
    group.add_argument("--megabytes", metavar="MB", type=positive, default=128, help="weights of the program, in MiB (default: 128)")  # fmt: skip


def run(options: argparse.Namespace, take: Take) -> Mapping[str, Any]:
    for record in records(options.megabytes, options.runs):
        take(record)
    return {"clock": "CPU seconds of the process"}


def records(megabytes: int, repeats: int) -> Sequence[Record]:
    """Return the CPU time of planning (once), saving and loading, the size of the file, and the peak of resident
    memory.
    """
    random = np.random.default_rng(0)
    count = max(1, megabytes * MIB // (SIDE * SIDE * 4))
    weights = [random.standard_normal((SIDE, SIDE), np.float32) for _ in range(count)]

    def program(x: mg.Tensor) -> mg.Tensor:
        for weight in weights:
            x = mg.tanh(x @ weight)
        return x

    plan_samples = _seconds(lambda: _plan(program), 1)
    executable = _plan(program)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "m.mgx")
        save_samples = _seconds(lambda: executable.save(path), repeats)
        load_samples = _seconds(lambda: mg.load(path), repeats)
        size = path.stat().st_size
    nbytes = sum(weight.nbytes for weight in weights)
    rows: list[dict[str, Any]] = [
        {"suite": "module", "what": what, "size": nbytes, **summary(seconds)}
        for what, seconds in (("plan", plan_samples), ("save", save_samples), ("load", load_samples))
    ]
    rows[1] |= {"file_bytes": size, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * KIB}
    return rows


def _plan(program: Callable[..., Any]) -> Any:
    arg, mesh = mg.spec(f"f32[64,{SIDE}]"), {"dp": 2, "tp": 4}
    return mg.compile(program, mesh, args=[arg], in_specs=[mg.P("dp")], target="cpu")


def _seconds(call: Callable[[], object], repeats: int) -> list[float]:
    samples: list[float] = []
    for _ in range(repeats):
        begin = time.process_time()
        call()
        samples.append(time.process_time() - begin)
    return samples


SUITE = Suite("planning, saving and loading a module with large constants", TITLES, add_options, run)
