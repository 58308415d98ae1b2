"""Check that modules contain the machine code of their PTX, which the emulated GPU runs.

Run it by `python -m tests.codegen.check_machine_code FOLDER`. ptxas assembles the PTX of every kernel again, with
Triton's options; the cubin must have the same bytes. Prints the kernels that differ, the kernels per program, and the
totals. Programs that do not compile or have symbolic sizes have no code.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from triton.backends.compiler import GPUTarget, Language
from triton.compiler.compiler import make_backend
from triton.runtime.errors import PTXASError

import meshgen as mg
from meshgen.errors import MeshgenError
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.module_file.manifest import Kernel
from tests.emulator.programs import programs_in, say


def assembled(ptx: bytes, arch: str) -> bytes:
    """Assemble a PTX text as Triton does, without line tables. Returns empty bytes if ptxas rejects the text."""
    backend: Any = make_backend(GPUTarget("cuda", int(arch.removeprefix("sm_")), 32))
    options = backend.parse_options({"ptx_options": "-suppress-debug-info", "enable_fp_fusion": True})
    stages: dict[str, Callable[[str, dict[str, Any]], bytes]] = {}
    backend.add_stages(stages, options, Language.TRITON)
    try:
        return stages["cubin"](ptx.decode(), {})
    except PTXASError:
        return b""


def comparisons(kernels: Mapping[str, Kernel], member: Callable[[str], bytes]) -> Iterator[tuple[str, bool]]:
    """Yield the file of each distinct binary of the kernels, and whether it equals the assembled PTX."""
    codes = {(b.file, b.ptx, arch) for kernel in kernels.values() for arch, b in kernel.binaries.items()}
    for file, ptx, arch in sorted(codes):
        yield file, assembled(member(ptx), arch) == member(file)


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
    parser.add_argument(
        "--count", type=int, default=1000, help="maximum number of programs of a folder, shortest first"
    )
    options = parser.parse_args()
    files = [f for path in options.programs for f in (programs_in(path, options.count) if path.is_dir() else [path])]
    kernels = wrong = refused = 0
    for file in files:
        try:
            parts = compiled(file, f"cuda:{options.archs}").parts
        except MeshgenError as error:
            refused += 1
            say(f"{file.name}: no code: {error.diagnostics[0].message[:120]}")
            continue
        results = [path for part in parts for path in comparisons(part.manifest.kernels, part.loaded.member)]
        differing = [name for name, is_same in results if not is_same]
        kernels, wrong = kernels + len(results), wrong + len(differing)
        say(f"{file.name}: {len(results)} kernels{''.join(f', {name} differs' for name in differing)}")
    say(f"{len(files)} programs at {options.archs}, {refused} without code; {kernels} kernels, {wrong} differ")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
