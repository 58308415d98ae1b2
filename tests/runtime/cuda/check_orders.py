"""Whole programs on emulated GPUs in random orders: `python -m tests.runtime.cuda.check_orders FILE_OR_FOLDER...`.

All ranks of a step are one graph; its results must have the same bits in all orders, and be those of one device within the stated
bounds. Kernels run as their bodies (`tests.emulator.check_programs` compares their PTX with these), with --ptx as what ships, which
takes hours where matrices have thousands of rows. Prints how each program did, and the sums.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import meshgen as mg
from meshgen.api import plan
from meshgen.errors import CodegenError, MeshgenError
from meshgen.ir.text import parse_text
from meshgen.runtime.emulate import Emulation
from meshgen.sharding.oracle import compare, meaning, whole
from tests.emulator.programs import programs_in, say
from tests.runtime.cuda.steps import arguments, on_gpus

Array = np.ndarray[Any, Any]


def verdict(file: Path, options: argparse.Namespace) -> str:
    """`right`, or what is the matter. Raises CodegenError where a kernel cannot be generated."""
    with tempfile.TemporaryDirectory() as folder:
        path, target = Path(folder) / "program.mgx", f"cuda:{options.arch}"
        (mg.compile(str(file), target=target) if options.ptx else plan(str(file), target=target)).save(path)
        module = mg.load(path)
    given = arguments(module)
    program = parse_text(file.read_text())
    wanted, bounds = meaning(whole(program), list(given.values()), program.mesh)
    first: list[Array] = []
    for seed in range(options.orders):
        races = options.races and not seed
        if options.ptx:
            found = module.run(given, Emulation(options.arch, races=races, order=seed))
        else:
            found = on_gpus(module, given, seed, races=races)
        if first and any(a.tobytes() != b.tobytes() for a, b in zip(first, found, strict=True)):
            return f"order {seed} has other bits than order 0"
        first = first or found
    for binding, own, want, bound in zip(module.outputs, first, wanted, bounds, strict=True):
        checked = compare(binding.type, want, own, bound)
        if not checked.ok:
            return f"{binding.name} is off by {checked.max_abs_error:.3g} at {checked.place}, allowed is {checked.tolerance:.3g}"
    return "right"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, nargs="+", help="files, or folders of .shardy.mlir files")
    parser.add_argument("--arch", default="sm_90")
    parser.add_argument("--orders", type=int, default=5)
    parser.add_argument("--ptx", action="store_true", help="kernels as the PTX that ships")
    parser.add_argument("--races", action="store_true", help="check accesses that nothing orders, in the first order")
    options = parser.parse_args()
    files = [f for each in options.programs for f in (programs_in(each, 10**6) if each.is_dir() else [each])]
    counts = Counter[str]()
    for file in files:
        begin = time.perf_counter()
        try:
            said = verdict(file, options)
            kind = "right" if said == "right" else "wrong"
        except CodegenError as error:
            said, kind = f"no code: {error.diagnostics[0].message[:120]}", "without code"
        except MeshgenError as error:
            said, kind = str(error), "at fault"
        counts[kind] += 1
        say(f"{file.name}: {said} ({time.perf_counter() - begin:.1f} s)")
    say(f"{len(files)} programs at {options.arch} in {options.orders} orders: {dict(sorted(counts.items()))}")
    return int(bool(counts["wrong"] or counts["at fault"]))


if __name__ == "__main__":
    sys.exit(main())
