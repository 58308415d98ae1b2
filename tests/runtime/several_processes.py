"""Programs with one process for each rank, compared bit for bit with all ranks in one process.

python -m tests.runtime.several_processes FOLDER --ranks 4,8 --device reference,emulate

Every .mlir program of the folder is compiled for a mesh of as many devices: its own, cut down along its largest axes.
Processes are started by mpiexec (`--by mpi`, messages of MPI), or one by one (`--by sockets`).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import meshgen as mg
from meshgen.commands.arrays import load_arrays
from meshgen.errors import MeshgenError
from meshgen.frontend.mlir import read_mlir
from meshgen.mesh import Mesh
from meshgen.runtime.random_arrays import random_array
from tests.runtime.launchers import MESHGEN, by_mpiexec, by_variables

TARGETS = {"reference": "cpu", "emulate": "cuda:sm_80", "interpret": "cpu"}


@dataclass(frozen=True)
class Outcome:
    """`verdict`: `equal`, `other bits`, or how it failed."""

    program: str
    ranks: int
    device: str
    verdict: str
    seconds: float


def shrunk(mesh: Mesh, ranks: int) -> Mesh | None:
    """The mesh with its largest axes halved until it has so many devices; None where that is impossible."""
    sizes = dict(zip((axis.name for axis in mesh.axes), mesh.sizes, strict=True))
    while (total := mesh.with_sizes(sizes).size) > ranks:
        name = max(sizes, key=lambda each: sizes[each])
        if total % 2 or sizes[name] % 2:
            return None
        sizes[name] //= 2
    found = mesh.with_sizes(sizes)
    return found if found.size == ranks else None


def run(path: Path, ranks: int, device: str, by: str) -> str:
    """`equal` where the results of the processes have the bits of those of one process."""
    module, output = mg.load(path), path.with_suffix(".npz")
    args = {binding.name: random_array(binding.type, [0, place]) for place, binding in enumerate(module.inputs)}
    wanted = module.run(args, device)
    words = (*MESHGEN, "run", str(path), "--device", device, "--time-out", "300", "--output", str(output))
    if by == "mpi":
        done = by_mpiexec(ranks, *words, limit=1800)
        faults = [done.stderr] if done.returncode else []
    else:
        faults = [each.err for each in by_variables(ranks, *words, limit=1800) if each.code]
    if faults:
        return f"fails: {faults[0][:300]}"
    have = load_arrays(str(output))
    is_equal = [*map(np.ndarray.tobytes, wanted)] == [have[b.name].tobytes() for b in module.outputs]
    return "equal" if is_equal else "other bits"


def outcome(program: Path, ranks: int, device: str, by: str, folder: Path) -> Outcome | None:
    """None: the program cannot have so many ranks, or has kernels that no GPU runs."""
    begin = time.monotonic()
    path = folder / f"{program.stem}.{ranks}.{device}.mgx"
    try:
        own = read_mlir(program)
        mesh = shrunk(own.mesh, ranks)
        if mesh is None or (mesh != own.mesh and "manual_computation" in program.read_text()):  # written for its mesh
            return None
        mg.compile(program, mesh, target=TARGETS[device]).save(path)
    except MeshgenError:
        return None
    return Outcome(program.stem, ranks, device, run(path, ranks, device, by), time.monotonic() - begin)


def campaign(programs: Sequence[Path], ranks: Sequence[int], devices: Sequence[str], by: str, folder: Path,
             tell: Callable[[Outcome], None]) -> list[Outcome]:  # fmt: skip
    found: list[Outcome] = []
    for device in devices:
        for count in ranks:
            for program in programs:
                if each := outcome(program, count, device, by, folder):
                    tell(each)
                    found.append(each)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--device", default="reference,emulate")
    parser.add_argument("--by", choices=("mpi", "sockets"), default="mpi")
    parser.add_argument("--match", default="*.mlir", help="names of programs")
    options = parser.parse_args()

    def tell(each: Outcome) -> None:
        sys.stdout.write(f"{each.device} {each.ranks} {each.program}: {each.verdict} ({each.seconds:.1f} s)\n")
        sys.stdout.flush()

    programs = sorted(options.folder.glob(options.match))
    counts = [int(text) for text in options.ranks.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        found = campaign(programs, counts, options.device.split(","), options.by, Path(folder), tell)
    equal = sum(each.verdict == "equal" for each in found)
    sys.stdout.write(f"{len(found)} runs by {options.by}, {equal} with equal bits\n")
    return 0 if equal == len(found) else 1


if __name__ == "__main__":
    sys.exit(main())
