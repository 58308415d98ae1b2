"""Run whole programs on emulated GPUs in random issue orders.

    python -m tests.runtime.cuda.check_orders FILE_OR_FOLDER...

The step of all ranks is one CUDA graph, and its results must have the same bits in all issue orders. By default the
emulator interprets the IR bodies of kernels, and the results must be bitwise equal to those of the simulated ranks.
(`tests.emulator.check_programs` compares the PTX of kernels with their bodies.) With --ptx it executes the shipped PTX,
and the results must be within the stated error bounds of the program on one device. That takes hours if matrices have
thousands of rows. Programs that the compiler rejects, or that have unknown sizes, are skipped.

Prints a verdict for each program and the totals. Exits with 1 if a program is wrong, faults or does not finish.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import meshgen as mg
from meshgen.api import plan
from meshgen.commands.time_limit import add_time_limit, time_limit
from meshgen.errors import CodegenError, MeshgenError
from meshgen.mlir.text import parse_text
from meshgen.runtime.emulation_options import Emulation
from meshgen.runtime.module import LoadedModule
from meshgen.testing.oracle import compare, meaning, whole
from tests.emulator.programs import programs_in, say
from tests.runtime.cuda.steps import arguments, on_gpus, same_bits

Array = np.ndarray[Any, Any]
OVER = "MG0604"  # diagnostic code of an exceeded time limit


class Wrong(Exception):
    """The results of a program differ from the expected ones."""


def compiled(file: Path, options: argparse.Namespace) -> LoadedModule:
    """Compile a program and load its module, with PTX if --ptx is set.

    Raises:
        MeshgenError: the program does not compile, or has unknown sizes.
    """
    target = f"cuda:{options.arch}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.mgx"
        (mg.compile(str(file), target=target) if options.ptx else plan(str(file), target=target)).save(path)
        module = mg.load(path)
    module.require_sizes()
    return module


def results_of(module: LoadedModule, inputs: dict[str, Array], order: int, options: argparse.Namespace) -> list[Array]:
    races = options.races and not order
    if options.ptx:
        return module.run(inputs, Emulation(options.arch, races=races, order=order))
    return on_gpus(module, inputs, order, races=races)


def check_program(file: Path, module: LoadedModule, options: argparse.Namespace) -> str:
    """Return a description of a correct program, or raise `Wrong`."""
    inputs = arguments(module)
    first = results_of(module, inputs, 0, options)
    for order in range(1, options.orders):
        if not all(map(same_bits, results_of(module, inputs, order, options), first)):
            raise Wrong(f"order {order} has other bits than order 0")
    description = within_bounds(file, module, inputs, first) if options.ptx else bits_of_ranks(module, inputs, first)
    return f"{module.ranks} ranks, {description}"


def bits_of_ranks(module: LoadedModule, inputs: dict[str, Array], results: Sequence[Array]) -> str:
    for binding, result, expected in zip(module.outputs, results, module.run(inputs), strict=True):
        if not same_bits(result, expected):
            raise Wrong(f"{binding.name} has other bits than the simulated ranks")
    return "the bits of the simulated ranks"


def within_bounds(file: Path, module: LoadedModule, inputs: dict[str, Array], results: Sequence[Array]) -> str:
    """Compare `results` with the program on one device. Return the largest error as a fraction of its bound, as text."""
    program = parse_text(file.read_text())
    meshes = [part.mesh for part in program.parts] or [program.mesh]
    worst = 0.0
    for binding, result, expected, bound in zip(
        module.outputs, results, *meaning(whole(program), list(inputs.values()), *meshes, tf32=True), strict=True
    ):
        checked = compare(binding.type, expected, result, bound)
        if not checked.ok:
            raise Wrong(f"{binding.name} differs by {checked.max_abs_error:.3g} at {checked.place}, allowed {checked.tolerance:.3g}")  # fmt: skip
        worst = max(worst, checked.max_abs_error / checked.tolerance if checked.max_abs_error else 0.0)
    return f"largest error {worst:.2g} of the stated bound"


def verdict(file: Path, options: argparse.Namespace) -> tuple[str, str]:
    """Return the verdict on a program and a description.

    The verdict is `right`, `wrong`, `at fault`, `unfinished`, `refused` or `without code`.
    """
    module = None
    try:
        with time_limit(options.time_limit):
            module = compiled(file, options)
            return "right", check_program(file, module, options)
    except Wrong as error:
        return "wrong", str(error)
    except CodegenError as error:
        return "without code", error.diagnostics[0].message[:120]
    except MeshgenError as error:
        is_over = error.diagnostics[0].code == OVER
        return "unfinished" if is_over else "at fault" if module else "refused", str(error).splitlines()[0]


def parsed_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, nargs="+", help="files, or folders of .shardy.mlir files")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--count", type=int, default=1000, help="maximum number of programs per folder, shortest first")
    parser.add_argument("--ptx", action="store_true", help="execute the PTX that ships instead of kernel bodies")
    parser.add_argument("--races", action="store_true", help="check for unordered accesses in the first order")
    add_time_limit(parser)
    return parser.parse_args()


def main() -> int:
    options = parsed_options()
    files = [f for path in options.programs for f in (programs_in(path, options.count) if path.is_dir() else [path])]
    counts, start = Counter[str](), time.perf_counter()
    for file in files:
        begin = time.perf_counter()
        outcome, description = verdict(file, options)
        counts[outcome] += 1
        say(f"{outcome}: {file.name}: {description} ({time.perf_counter() - begin:.1f} s)")
    totals = ", ".join(f"{count} {outcome}" for outcome, count in sorted(counts.items()))
    say(
        f"{len(files)} programs at {options.arch} in {options.orders} orders: {totals}; {time.perf_counter() - start:.0f} s"
    )
    return int(bool(counts["wrong"] + counts["at fault"] + counts["unfinished"]))


if __name__ == "__main__":
    sys.exit(main())
