"""Kernels of small programs: each template of the kernel generator, and any `.mlir` file.

Without a GPU, a record describes the generated kernel and its predicted time. If the GPU has the target architecture,
each kernel is measured too. A record of the whole program then comes first, with PyTorch's time if PyTorch is
installed.
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
    group.add_argument("--target", metavar="cuda:ARCH", help=f"one architecture; kernels are measured if it is the architecture of the GPU (default: the GPU's, or else {DEFAULT_TARGET})")  # fmt: skip
    group.add_argument(
        "--jobs", metavar="N", type=positive, default=1, help="programs compiled at the same time (default: 1)"
    )


def run(options: argparse.Namespace, take: Take) -> Mapping[str, Any]:
    """Compile and, on a GPU, measure the programs. Raises UsageError: MG0001; MissingError: MG0602; RuntimeFailure;
    MeshgenError if a program is invalid.
    """
    names = select_programs(options.names)
    gpu = _gpu()
    target = options.target or (f"cuda:{gpu.arch}" if gpu else DEFAULT_TARGET)
    if gpu and target != f"cuda:{gpu.arch}":
        gpu = None
    facts: dict[str, Any] = {"clocks": "not known without NVML" if gpu and not gpu.nvml else None}
    ceilings = gpu.ceilings() if gpu else None
    if ceilings:
        facts["ceilings"] = f"{ceilings.bytes_per_second / 1e9:.0f} GB/s, {ceilings.flops_per_second / 1e12:.0f} TFLOP/s ({ceilings.source})"  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for module_path, records in _compiled_programs(names, target, options.jobs, Path(folder)):
            for record in _measured(gpu, ceilings, module_path, records) if gpu and ceilings else records:
                take(record)
    return facts


def select_programs(prefixes: Sequence[str]) -> list[str]:
    """Return the programs whose names start with one of `prefixes`, and the files among them.

    Raises MissingError MG0602 without JAX, UsageError MG0001 if no program has such a name.
    """
    files = [name for name in prefixes if name.endswith(".mlir")]
    program_prefixes = [name for name in prefixes if name not in files]
    if files and not program_prefixes:
        return files
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        from meshgen.benchmarks.kernels.programs import PROGRAMS
    except ImportError as error:
        text = f"these programs are written in JAX: {error}"
        hint = f"{install('jax')}, or name .mlir files"
        raise MissingError(Diagnostic("MG0602", text, hint=hint)) from error
    if unknown := [prefix for prefix in program_prefixes if not any(name.startswith(prefix) for name in PROGRAMS)]:
        hint = f"the programs are {', '.join(PROGRAMS)}"
        raise UsageError(Diagnostic("MG0001", f"unknown program '{unknown[0]}'", hint=hint))
    return files + [
        name for name in PROGRAMS if not program_prefixes or any(name.startswith(prefix) for prefix in program_prefixes)
    ]


def _compiled_programs(
    names: Sequence[str], target: str, jobs: int, folder: Path
) -> Iterator[tuple[Path, list[Record]]]:
    """Yield the module path and the kernel records of each program, in the order of `names`."""
    from meshgen.benchmarks.kernels.static import compile_and_describe

    module_paths = [folder / f"{index}.mgx" for index in range(len(names))]
    if jobs <= 1:
        for name, module_path in zip(names, module_paths, strict=True):
            yield module_path, compile_and_describe(name, target, str(module_path))
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from zip(
            module_paths,
            pool.map(compile_and_describe, names, [target] * len(names), map(str, module_paths)),
            strict=True,
        )


def _gpu() -> Any:
    """Return the first GPU, or None without one."""
    from meshgen.benchmarks.kernels.baselines import find_torch
    from meshgen.benchmarks.kernels.measure import Gpu, event_timer
    from meshgen.benchmarks.nvml import find_nvml
    from meshgen.runtime.cuda.api import real

    try:
        return Gpu(real(1), event_timer, find_torch(), find_nvml())
    except MissingError:
        return None


def _measured(gpu: Any, ceilings: Any, module_path: Path, records: list[Record]) -> list[Record]:
    from meshgen.benchmarks.kernels.measure import measure_program
    from meshgen.runtime.loading import load
    from meshgen.runtime.module import LoadedModule

    module = load(module_path)
    assert isinstance(module, LoadedModule), "`compile_and_describe` rejects others"
    return measure_program(gpu, module, records, ceilings)


SUITE = Suite("kernels of every template, compared with a copy, cuBLAS and PyTorch on a GPU; without a GPU, their code and predicted times", TITLES, add_options, run)  # fmt: skip
