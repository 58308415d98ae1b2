"""Whole programs on emulated GPUs in random orders: `python -m tests.runtime.cuda.check_orders FILE_OR_FOLDER...`.

All ranks of a step are one graph; its results must have the same bits in all orders. Kernels run as their bodies, and the
results must have the bits of the simulated ranks (`tests.emulator.check_programs` compares the PTX of kernels with bodies).
With --ptx they run as what ships, and the results must be those of one device within the stated bounds; that takes hours
where matrices have thousands of rows. Prints how each program did, and the sums; fails unless all that have code are right.
Programs that the compiler refuses, or whose sizes stay open, do not run.
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
from meshgen.runtime.emulation import Emulation
from meshgen.runtime.module import LoadedModule
from meshgen.testing.oracle import compare, meaning, whole
from tests.emulator.programs import programs_in, say
from tests.runtime.cuda.steps import arguments, on_gpus, same_bits

Array = np.ndarray[Any, Any]
OVER = "MG0604"  # the code of a time limit that is over


class Wrong(Exception):
    """Results are not what they must be."""


def compiled(file: Path, options: argparse.Namespace) -> LoadedModule:
    """Its module, with the code of kernels where that is to run. Raises MeshgenError where there is none, or sizes are open."""
    target = f"cuda:{options.arch}"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "program.mgx"
        (mg.compile(str(file), target=target) if options.ptx else plan(str(file), target=target)).save(path)
        module = mg.load(path)
    module.require_sizes()
    return module


def results_of(module: LoadedModule, given: dict[str, Array], order: int, options: argparse.Namespace) -> list[Array]:
    races = options.races and not order
    if options.ptx:
        return module.run(given, Emulation(options.arch, races=races, order=order))
    return on_gpus(module, given, order, races=races)


def check_program(file: Path, module: LoadedModule, options: argparse.Namespace) -> str:
    """What was seen of a program that is right. Raises Wrong."""
    given = arguments(module)
    first = results_of(module, given, 0, options)
    for order in range(1, options.orders):
        if not all(map(same_bits, results_of(module, given, order, options), first)):
            raise Wrong(f"order {order} has other bits than order 0")
    said = within_bounds(file, module, given, first) if options.ptx else bits_of_ranks(module, given, first)
    return f"{module.ranks} ranks, {said}"


def bits_of_ranks(module: LoadedModule, given: dict[str, Array], found: Sequence[Array]) -> str:
    for binding, own, want in zip(module.outputs, found, module.run(given), strict=True):
        if not same_bits(own, want):
            raise Wrong(f"{binding.name} has other bits than the simulated ranks")
    return "the bits of the simulated ranks"


def within_bounds(file: Path, module: LoadedModule, given: dict[str, Array], found: Sequence[Array]) -> str:
    """How large the errors are in units of the stated bounds, which compare with the program on one device."""
    program = parse_text(file.read_text())
    meshes = [part.mesh for part in program.parts] or [program.mesh]
    worst = 0.0
    for binding, own, want, bound in zip(
        module.outputs, found, *meaning(whole(program), list(given.values()), *meshes, tf32=True), strict=True
    ):
        checked = compare(binding.type, want, own, bound)
        if not checked.ok:
            raise Wrong(f"{binding.name} differs by {checked.max_abs_error:.3g} at {checked.place}, allowed {checked.tolerance:.3g}")  # fmt: skip
        worst = max(worst, checked.max_abs_error / checked.tolerance if checked.max_abs_error else 0.0)
    return f"largest error {worst:.2g} of the stated bound"


def verdict(file: Path, options: argparse.Namespace) -> tuple[str, str]:
    """`right`, `wrong`, `at fault`, `unfinished`, `refused` or `without code`, and what there is to say of it."""
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
    parser.add_argument("--count", type=int, default=1000, help="programs of each folder at most, the shortest first")
    parser.add_argument("--ptx", action="store_true", help="kernels as the PTX that ships")
    parser.add_argument("--races", action="store_true", help="check accesses that nothing orders, in the first order")
    add_time_limit(parser)
    return parser.parse_args()


def main() -> int:
    options = parsed_options()
    files = [f for each in options.programs for f in (programs_in(each, options.count) if each.is_dir() else [each])]
    counts, start = Counter[str](), time.perf_counter()
    for file in files:
        begin = time.perf_counter()
        kind, said = verdict(file, options)
        counts[kind] += 1
        say(f"{kind}: {file.name}: {said} ({time.perf_counter() - begin:.1f} s)")
    sums = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
    say(
        f"{len(files)} programs at {options.arch} in {options.orders} orders: {sums}; {time.perf_counter() - start:.0f} s"
    )
    return int(bool(counts["wrong"] + counts["at fault"] + counts["unfinished"]))


if __name__ == "__main__":
    sys.exit(main())
