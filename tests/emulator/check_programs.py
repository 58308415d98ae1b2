"""Run the PTX of all kernels of programs with all checks, and compare the results with those of the kernel bodies.

    python -m tests.emulator.check_programs FOLDER

Prints each wrong or faulting kernel, a table row for each program and architecture, and the totals. If the compiler
rejects a program or cannot generate one of its kernels, prints the reason.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from meshgen.emulator.faults import DeviceFault
from meshgen.errors import MeshgenError
from tests.emulator.programs import Case, cases_of, programs_in, say


def outcome(case: Case) -> tuple[str, float]:
    """Return the fault of a kernel, and the kernel's largest error as a multiple of its bound.

    The fault is "" if the kernel is correct.
    """
    try:
        excess = case.excess(case.run())
    except DeviceFault as fault:
        return str(fault), 0.0
    return "" if excess <= 1 else f"wrong: {excess:.3g} times what is allowed", excess


def outcomes(file: Path, arch: str, seed: int) -> Iterator[tuple[str, float]]:
    """Yield the outcome of each kernel of a program, and print the wrong kernels.

    Raises:
        MeshgenError: the program has no code for `arch`.
    """
    for case in cases_of(file, [arch], seed):
        message, excess = outcome(case)
        if message:
            say(f"{file.name} {case.name} {arch}: {message}")
        yield message, excess


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, nargs="+", help="files, or folders of .shardy.mlir files")
    parser.add_argument("--archs", default="sm_80,sm_90")
    parser.add_argument("--count", type=int, default=1000, help="maximum number of programs per folder, shortest first")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    files = [f for path in options.programs for f in (programs_in(path, options.count) if path.is_dir() else [path])]
    kernels = wrong = refused = 0
    worst = 0.0
    say(
        "| program | architecture | kernels | equal | largest error, of what is allowed | CPU seconds |\n| --- | --- | --- | --- | --- | --- |"
    )
    for file, arch in ((file, arch) for file in files for arch in options.archs.split(",")):
        begin = time.process_time()
        row = f"| {file.name.split('.')[0]} | {arch} |"
        try:
            kernel_outcomes = list(outcomes(file, arch, options.seed))
        except MeshgenError as error:
            refused += 1
            say(f"{row} no code: {error.diagnostics[0].message[:120]} | | | |")
            continue
        largest, equal = (
            max((excess for _, excess in kernel_outcomes), default=0.0),
            sum(not message for message, _ in kernel_outcomes),
        )
        kernels, wrong, worst = (
            kernels + len(kernel_outcomes),
            wrong + len(kernel_outcomes) - equal,
            max(worst, largest),
        )
        say(f"{row} {len(kernel_outcomes)} | {equal} | {largest:.2g} | {time.process_time() - begin:.1f} |")
    say(
        f"{len(files)} programs, {refused} without code; {kernels} kernels, {wrong} wrong, largest error {worst:.2g} of what is allowed"
    )
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
