"""`python -m bench kernels [NAMES] [--target T] [--output FILE] [--jobs N]`: kernels for programs of one kernel, or a few.

Without a GPU the table has what is generated and predicted: template and tile, registers, spills, tensor-core instructions, asynchronous copies,
used memory sectors. On a GPU each program is measured as well, beside cuBLAS and PyTorch where these are installed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import nullcontext
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench.device import cuda
from meshgen.errors import Diagnostic, MissingError, UsageError

TITLES = (
    "program",
    "kernel",
    "template",
    "tile",
    "registers",
    "spills",
    "tensor cores",
    "copies",
    "sectors",
    "GFLOP",
    "MB",
    "predicted",
)


def table(records: Sequence[Mapping[str, Any]]) -> str:
    """A Markdown table with a row per kernel."""
    is_measured = any("measured" in record for record in records)
    titles = [*TITLES, *["measured", "spread", "cold", "of ceiling", "correct", "against"] * is_measured]
    lines = [f"| {' | '.join(titles)} |", f"| {' | '.join('---' for _ in titles)} |"]
    for record in records:
        for number, kernel in enumerate(record["kernels"]):
            cells = [record["program"] if not number else "", *_cells(kernel)]
            if is_measured:
                cells += _measured(record["measured"]) if not number else [""] * 6
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cells(kernel: Mapping[str, Any]) -> list[str]:
    tile = "x".join(str(kernel["constants"][key]) for key in kernel["constants"] if key.startswith("BLOCK"))
    units, copies = (" ".join(f"{n} {unit}" for unit, n in kernel[key].items()) for key in ("units", "copies"))
    often = f"{kernel['launches']} x " if kernel["launches"] > 1 else ""
    return [
        f"{often}{kernel['name']}", kernel["template"], f"{tile} w{kernel['warps']} s{kernel['stages']}", str(kernel["registers"]),
        str(kernel["spill_bytes"]), units, copies, f"{kernel['sectors']:.0%}", f"{kernel['flops'] / 1e9:.1f}",
        f"{kernel['bytes'] / 1e6:.1f}", f"{kernel['seconds'] * 1e6:.1f} us",
    ]  # fmt: skip


def _measured(found: Mapping[str, Any]) -> list[str]:
    against = f"{found['against']} {found['against_us'] / found['us']:.2f} x" if found.get("against") else ""
    correct = {True: "yes", False: "NO"}.get(found.get("correct", ""), "")
    return [
        f"{found['us']:.1f} us",
        f"{found['spread']:.0%}",
        f"{found['cold_us']:.1f} us",
        f"{found['of_ceiling']:.0%}",
        correct,
        against,
    ]


def main(words: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench kernels", description=__doc__)
    parser.add_argument(
        "names", nargs="*", help="programs of bench/kernels/programs.py, or what their names begin with; default: all"
    )
    parser.add_argument("--target", default="cuda:sm_90", help="default: cuda:sm_90")
    parser.add_argument("--jobs", type=int, default=1, help="programs at a time")
    parser.add_argument("--output", metavar="FILE", help="append records as JSON lines instead of printing a table")
    options = parser.parse_args(words)
    names = _named(options.names)
    records = list[dict[str, Any]]()
    with open(options.output, "a") if options.output else nullcontext() as file:
        for record in _records(names, options.target, options.jobs):
            records.append(record)
            if file:
                file.write(json.dumps(record) + "\n")
                file.flush()
    if not options.output:
        sys.stdout.write(table(records) + "\n")
    return 0


def _records(names: Sequence[str], target: str, jobs: int) -> Iterator[dict[str, Any]]:
    from bench.kernels.static import described

    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    try:
        device = cuda()
    except MissingError:
        device = None
    if device is not None:
        from bench.kernels.measure import measure_kernels

        yield from measure_kernels(device, names)
        return
    if jobs == 1:
        yield from map(partial(described, target=target), names)
        return
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        yield from pool.map(partial(described, target=target), names)


def read(path: Path) -> list[dict[str, Any]]:
    """Records that `--output` wrote."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def _named(asked: Sequence[str]) -> list[str]:
    """The programs whose names begin so. Raises MissingError MG0602 without JAX, UsageError MG0001 for a name that nothing has."""
    try:
        from bench.kernels.programs import PROGRAMS
    except ImportError as error:
        text = f"these programs are written in JAX: {error}"
        raise MissingError(Diagnostic("MG0602", text, hint="pip install 'meshgen[jax]'")) from error
    found = [name for name in PROGRAMS if not asked or any(name.startswith(each) for each in asked)]
    if unknown := [each for each in asked if not any(name.startswith(each) for name in PROGRAMS)]:
        raise UsageError(
            Diagnostic("MG0001", f"there is no program '{unknown[0]}'", hint=f"the programs are {', '.join(PROGRAMS)}")
        )
    return found
