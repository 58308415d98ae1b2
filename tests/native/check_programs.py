"""Compare the C loader with the Python executor on whole programs, bit for bit, on emulated GPUs.

    python -m tests.native.check_programs FOLDER [--count N] [--archs sm_80,sm_90]

Prints each program that differs or does not run, each one without code for GPUs, and the totals.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import meshgen as mg
from meshgen.errors import CodegenError, MeshgenError, MissingError
from meshgen.runtime.loading import load
from meshgen.runtime.native.export import write_native
from meshgen.runtime.random_arrays import random_array
from tests.emulator.programs import programs_in, say
from tests.native import loader
from tests.native.programs import after_steps

STEPS = 2  # number of steps: the loader issues the first one directly, and the second as a graph launch


def checked(program: Path, arch: str, folder: Path, tools: tuple[Path, Path]) -> str:
    """Return a description of the failure or of the difference, or "" if all bits are equal."""
    path = folder / "program.mgx"
    mg.compile(str(program), target=f"cuda:{arch}").save(path)
    write_native(path, path)
    module = load(path, runs=False)
    args = {b.name: random_array(b.type, [0, i]) for i, b in enumerate(module.inputs)}
    outcome = loader.run(*tools, path, args, arch=arch, options=["--steps", str(STEPS)])
    if outcome.code:
        return f"exit {outcome.code}: {outcome.errors.strip()}"
    expected = zip(module.outputs, after_steps(module, args, arch, STEPS), strict=True)
    wrong = [
        b.name for b, array in expected if outcome.results[b.name].tobytes() != np.ascontiguousarray(array).tobytes()
    ]
    return f"other bits in {', '.join(wrong)}" if wrong else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("programs", type=Path, nargs="+", help="files, or folders of .shardy.mlir files")
    parser.add_argument("--archs", default="sm_80")
    parser.add_argument("--count", type=int, default=1000, help="maximum number of programs per folder, shortest first")
    options = parser.parse_args()
    files = [f for path in options.programs for f in (programs_in(path, options.count) if path.is_dir() else [path])]
    with tempfile.TemporaryDirectory() as name:
        folder, wrong, refused, right = Path(name), 0, 0, 0
        tools = loader.build(folder / "build"), loader.build_libraries(folder / "libraries", "emulated_gpu.c")
        for file in files:
            for arch in options.archs.split(","):
                begin = time.perf_counter()
                try:
                    message = checked(file, arch, folder, tools)
                except (CodegenError, MissingError) as error:
                    refused += 1
                    say(f"{file.name} {arch}: no code: {error.diagnostics[0].message[:120]}")
                    continue
                except MeshgenError as error:
                    message = str(error)
                wrong, right = wrong + bool(message), right + (not message)
                say(f"{file.name} {arch}: {message or 'same bits'}, {time.perf_counter() - begin:.1f} s")
    say(f"{len(files)} programs: {right} with the same bits, {wrong} wrong, {refused} without code")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
