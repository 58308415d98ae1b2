"""Check of the built kernels of programs: `python -m tests.codegen.check_builds [--bf16] FILE ...`.

Prints each kernel that spills or cannot be launched. For each program and architecture, prints the number of kernels,
the maximum number of registers and the build time in seconds. `--bf16` reads each program with bf16 in place of f32.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from meshgen import api
from meshgen.codegen.building.built_kernel import BuiltKernel
from meshgen.codegen.building.candidates import build_best
from meshgen.codegen.triton_source import kernel_sources
from meshgen.errors import MeshgenError
from meshgen.ir.graph import Graph
from meshgen.mesh import Mesh
from tests.emulator.programs import say

ARCHS = ("sm_80", "sm_90", "sm_100")
_BITS = re.compile(r"dense<(0x[0-9A-F]{4})[0-9A-F]{4}>")


def as_bf16(text: str) -> str:
    """Return the program text with bf16 in place of f32, including the bits of constants."""
    return re.sub(r"\bf32\b|(?<=x)f32\b", "bf16", _BITS.sub(r"dense<\1>", text))


def bodies_of(text: str, arch: str) -> Iterator[tuple[Mesh, Mapping[str, Graph]]]:
    """Yield the mesh and the launched kernels of each part of the program."""
    executable = api.plan(text, target=f"cuda:{arch}")
    for part in executable.parts:
        yield part.mesh, {name: part.plan.kernels[name] for name in part.plan.launch_counts()}


def built(mesh: Mesh, bodies: Mapping[str, Graph], arch: str) -> Mapping[str, BuiltKernel]:
    """Build the best candidate of each kernel."""
    _, binaries = build_best(bodies, lambda name: kernel_sources(name, bodies[name], mesh, f"cuda:{arch}"), [arch])
    return {name: kernel for (name, _), kernel in binaries.items()}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, nargs="+")
    parser.add_argument("--archs", default=",".join(ARCHS))
    parser.add_argument("--bf16", action="store_true")
    options = parser.parse_args()
    faults = 0
    for path in options.programs:
        text = as_bf16(path.read_text()) if options.bf16 else path.read_text()
        for arch in options.archs.split(","):
            begin = time.perf_counter()
            try:
                kernels = {
                    name: k for mesh, bodies in bodies_of(text, arch) for name, k in built(mesh, bodies, arch).items()
                }
            except MeshgenError as error:
                faults += 1
                say(f"{path.name} {arch}: {error.diagnostics[0].message[:300]}")
                continue
            for name, kernel in kernels.items():
                if kernel.spill_bytes:
                    faults += 1
                    say(f"{path.name} {arch} {name}: {kernel.spill_bytes} bytes spilled, {kernel.regs} registers")
            most_registers, seconds = max((k.regs for k in kernels.values()), default=0), time.perf_counter() - begin
            say(f"{path.name} {arch}: {len(kernels)} kernels, at most {most_registers} registers, {seconds:.0f} s")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
