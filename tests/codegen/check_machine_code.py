"""Whether modules ship the machine code of their PTX, which is what the emulated GPU runs: `python -m tests.codegen.check_machine_code FOLDER`.

ptxas assembles the PTX of every kernel again, with the options that Triton gives it: the cubin must have the same bytes. Prints the
kernels that differ, per program how many there are, and the sums. Programs that the compiler refuses, and those whose sizes stay
open, have no code.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import triton

import meshgen as mg
from meshgen.errors import MeshgenError
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.manifest import Kernel
from tests.emulator.programs import programs_in, say

PTXAS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"


def assembled(ptx: bytes, arch: str, folder: Path) -> bytes:
    """The cubin of a PTX text; empty where ptxas refuses it. `arch`: up to `sm_90`."""
    text, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
    text.write_bytes(ptx)
    target = f"--gpu-name={arch}{'a' if arch == 'sm_90' else ''}"
    command = [PTXAS, "-lineinfo", "-suppress-debug-info", target, text, "-o", cubin]
    done = subprocess.run(command, stderr=subprocess.DEVNULL)
    return b"" if done.returncode else cubin.read_bytes()


def comparisons(kernels: Mapping[str, Kernel], member: Callable[[str], bytes]) -> Iterator[tuple[str, bool]]:
    """Each distinct code of some kernels, by its file, and whether it is that of its PTX."""
    codes = {(b.file, b.ptx, arch) for kernel in kernels.values() for arch, b in kernel.binaries.items()}
    with tempfile.TemporaryDirectory() as folder:
        for file, ptx, arch in sorted(codes):
            yield file, assembled(member(ptx), arch, Path(folder)) == member(file)


def compiled(file: Path, target: str) -> LoadedModule:
    with tempfile.TemporaryDirectory() as folder:
        mg.compile(str(file), target=target).save(Path(folder) / "program.mgx")
        module = mg.load(Path(folder) / "program.mgx")
    module.require_sizes()
    return module


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("programs", type=Path, nargs="+", help="files, or folders of .shardy.mlir files")
    parser.add_argument("--archs", default="sm_80,sm_90")
    parser.add_argument("--count", type=int, default=1000, help="programs of each folder at most, the shortest first")
    options = parser.parse_args()
    files = [f for each in options.programs for f in (programs_in(each, options.count) if each.is_dir() else [each])]
    kernels = wrong = refused = 0
    for file in files:
        try:
            parts = compiled(file, f"cuda:{options.archs}").parts
        except MeshgenError as error:
            refused += 1
            say(f"{file.name}: no code: {error.diagnostics[0].message[:120]}")
            continue
        found = [each for part in parts for each in comparisons(part.manifest.kernels, part.loaded.member)]
        others = [name for name, is_same in found if not is_same]
        kernels, wrong = kernels + len(found), wrong + len(others)
        say(f"{file.name}: {len(found)} kernels{''.join(f', {name} differs' for name in others)}")
    say(f"{len(files)} programs at {options.archs}, {refused} without code; {kernels} kernels, {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
