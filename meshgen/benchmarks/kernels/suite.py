"""Kernels of programs of one kernel, or a few: each template of the generator, and any `.mlir` file.

Without a GPU a record has what is generated and predicted. On a GPU whose architecture is the target each kernel is measured too, and
before them stands a record of the whole program, beside PyTorch where that is installed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from meshgen.benchmarks.records import Record
from meshgen.benchmarks.suite import Options, Suite, Take
from meshgen.errors import Diagnostic, MissingError, UsageError
from meshgen.numbers import positive
from meshgen.packages import install

DEFAULT_TARGET = "cuda:sm_90"
TITLES = {
    "program": "program", "kernel": "kernel", "launches": "launches", "template": "template", "tile": "tile", "registers": "registers",
    "spill_bytes": "spills (B)", "units": "tensor cores", "copies": "copies", "sectors": "sectors used", "flops": "FLOP", "bytes": "bytes",
    "predicted_seconds": "predicted (s)", "us": "time (us)", "spread": "spread", "cold_us": "cold L2 (us)", "of_ceiling": "of ceiling",
    "against": "against", "against_us": "its time (us)", "correct": "correct", "sm_mhz": "SM clock (MHz)", "throttled": "throttled by",
}  # fmt: skip


def add_options(group: Options) -> None:
    group.add_argument("--target", metavar="cuda:ARCH", help=f"one architecture; kernels are measured where the GPU has it (default: the GPU's, or else {DEFAULT_TARGET})")  # fmt: skip
    group.add_argument(
        "--jobs", metavar="N", type=positive, default=1, help="programs that are built at a time (default: 1)"
    )


def run(options: argparse.Namespace, take: Take) -> Mapping[str, Any]:
    """Raises UsageError: MG0001; MissingError: MG0602; RuntimeFailure; MeshgenError of a program that is refused."""
    names = named(options.names)
    gpu = _gpu()
    target = options.target or (f"cuda:{gpu.arch}" if gpu else DEFAULT_TARGET)
    if gpu and target != f"cuda:{gpu.arch}":
        gpu = None
    facts: dict[str, Any] = {"clocks": "not known without NVML" if gpu and not gpu.nvml else None}
    ceilings = gpu.ceilings() if gpu else None
    if ceilings:
        facts["ceilings"] = f"{ceilings.bytes_per_second / 1e9:.0f} GB/s, {ceilings.flops_per_second / 1e12:.0f} TFLOP/s ({ceilings.source})"  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for place, records in _built(names, target, options.jobs, Path(folder)):
            for record in _measured(gpu, ceilings, place, records) if gpu and ceilings else records:
                take(record)
    return facts


def named(asked: Sequence[str]) -> list[str]:
    """Programs whose names begin so, and files. Raises MissingError MG0602 without JAX, UsageError MG0001 for a name that nothing has."""
    files = [name for name in asked if name.endswith(".mlir")]
    others = [name for name in asked if name not in files]
    if files and not others:
        return files
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        from meshgen.benchmarks.kernels.programs import PROGRAMS
    except ImportError as error:
        text = f"these programs are written in JAX: {error}"
        hint = f"{install('jax')}, or name .mlir files"
        raise MissingError(Diagnostic("MG0602", text, hint=hint)) from error
    if unknown := [each for each in others if not any(name.startswith(each) for name in PROGRAMS)]:
        hint = f"the programs are {', '.join(PROGRAMS)}"
        raise UsageError(Diagnostic("MG0001", f"unknown program '{unknown[0]}'", hint=hint))
    return files + [name for name in PROGRAMS if not others or any(name.startswith(each) for each in others)]


def _built(names: Sequence[str], target: str, jobs: int, folder: Path) -> Iterator[tuple[Path, list[Record]]]:
    """Modules and the records of their kernels, in the order of the names."""
    from meshgen.benchmarks.kernels.static import built

    places = [folder / f"{number}.mgx" for number in range(len(names))]
    if jobs <= 1:
        for name, place in zip(names, places, strict=True):
            yield place, built(name, target, str(place))
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from zip(places, pool.map(built, names, [target] * len(names), map(str, places)), strict=True)


def _gpu() -> Any:
    """The first GPU; None without one."""
    from meshgen.benchmarks.kernels.baselines import find_torch
    from meshgen.benchmarks.kernels.measure import Gpu, event_timer
    from meshgen.benchmarks.nvml import find_nvml
    from meshgen.runtime.cuda.api import real

    try:
        return Gpu(real(1), event_timer, find_torch(), find_nvml())
    except MissingError:
        return None


def _measured(gpu: Any, ceilings: Any, place: Path, records: list[Record]) -> list[Record]:
    from meshgen.benchmarks.kernels.measure import measured
    from meshgen.runtime.loading import load
    from meshgen.runtime.module import LoadedModule

    module = load(place)
    assert isinstance(module, LoadedModule), "`built` has refused others"
    return measured(gpu, module, records, ceilings)


SUITE = Suite("kernels of every template, against a copy, cuBLAS and PyTorch on a GPU; without one what is built and predicted", TITLES, add_options, run)  # fmt: skip
