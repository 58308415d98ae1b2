"""The host time of a step: the executor runs on a driver that does nothing (`nothing.c`), through NVIDIA's own
bindings. No GPU is needed.

A module of 50 launches on one device is measured in a process of its own:

    step         a step of a session with a CUDA graph: state on the device, no results on the host, one call of
    cuGraphLaunch
    launch       one kernel launch of a step without a graph
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import meshgen as mg
from meshgen.benchmarks.records import Record
from meshgen.benchmarks.samples import summary
from meshgen.benchmarks.suite import Suite, Take, no_options
from meshgen.errors import Diagnostic, MissingError
from meshgen.packages import install
from meshgen.runtime.cuda.api import Api, real
from meshgen.runtime.cuda.code import code_of
from meshgen.runtime.cuda.execute import Executor, Program
from meshgen.runtime.loading import load
from meshgen.runtime.module import LoadedModule

KERNELS = 50  # number of launches of a step (chosen: spreads the fixed time of a step thin)
# number of steps in a run, and of runs, of which the median is reported (chosen: a run takes well under a second)
STEPS, RUNS = 500, 25
T = "tensor<16x16xf32>"
TITLES = {
    "what": "what",
    "launches": "launches of a step",
    "us": "time (us)",
    "least_us": "least (us)",
    "spread": "spread",
}


def program() -> str:
    """Return a chain of GEMMs that do not fuse. The last result overwrites the argument that the first GEMM reads."""
    head = f"func.func @main(%x0: {T} {{tf.aliasing_output = 0 : i32}}, %w: {T}) -> {T} {{\n"
    dot = "stablehlo.dot_general %x{}, %w, contracting_dims = [1] x [0] : " + f"({T}, {T}) -> {T}"
    lines = [f"  %x{index + 1} = {dot.format(index)}\n" for index in range(KERNELS)]
    return f"{head}{''.join(lines)}  return %x{KERNELS} : {T}\n}}\n"


def run(options: argparse.Namespace, take: Take) -> Mapping[str, Any]:
    """Build the driver and measure a step on it. Raises MissingError MG0602 without gcc or cuda-bindings."""
    del options
    compiler = shutil.which("gcc")
    if compiler is None:
        raise MissingError(Diagnostic("MG0602", "gcc is not installed", hint="gcc builds the driver that does nothing"))
    if find_spec("cuda") is None or find_spec("cuda.bindings") is None:
        hint = f"{install('cuda12')}; it needs no GPU"
        raise MissingError(Diagnostic("MG0602", "cuda-bindings is not installed", hint=hint))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        source, library = Path(__file__).parent / "nothing.c", folder / "libcuda.so.1"
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-w", "-o", str(library), str(source)], check=True)
        mg.compile(program(), target="cuda:sm_80").save(folder / "m.mgx")
        paths = os.pathsep.join(filter(None, [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]))
        environment = os.environ | {"LD_LIBRARY_PATH": name, "PYTHONPATH": paths}
        command = [sys.executable, "-m", "meshgen.benchmarks.launch", str(folder / "m.mgx")]
        outcome = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    for record in json.loads(outcome.stdout):
        take(record)
    return {"clock": "CPU seconds of the thread"}


def _measured(module: LoadedModule) -> list[Record]:
    """Measure a session's step and a kernel launch. This runs in the process that has loaded the driver."""
    launches = sum(module.schedule.launch_counts().values())
    with module.session("cuda", weights={"w": _zeros()}) as session:
        session["x0"] = _zeros()
        session()  # the first use of kernels allocates memory, so this step runs without a graph
        session()  # this step captures the CUDA graph
        by_graph = _timed(session)
    api = real(1)
    executor = _executor(module, api)
    executor.step()
    rows = [("step", 1, by_graph), ("launch", launches, _timed(executor.step))]
    return [
        {"suite": "launch", "what": what, "launches": launches, **summary([seconds / count for seconds in row])}
        for what, count, row in rows
    ]


def _executor(module: LoadedModule, api: Api) -> Executor:
    code = code_of(module.manifest.kernels, module.loaded.member, api)
    return Executor([Program(module.manifest, module.loaded.constants, code)], api, use_graphs=False)


def _timed(step: Callable[[], object]) -> list[float]:
    """Return the seconds per step of each run, as CPU time of the thread: a step never waits."""
    samples: list[float] = []
    for _ in range(RUNS):
        begin = time.thread_time()
        for _ in range(STEPS):
            step()
        samples.append((time.thread_time() - begin) / STEPS)
    return samples


def _zeros() -> Any:
    return np.zeros((16, 16), np.float32)


SUITE = Suite("host time of a step and of a launch, on a driver that does nothing", TITLES, no_options, run)

if __name__ == "__main__":
    sys.stdout.write(json.dumps(_measured(load(sys.argv[1]))))
