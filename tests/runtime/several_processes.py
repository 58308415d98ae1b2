"""Run programs with one process per rank, and compare the results bit for bit with all ranks in one process.

    python -m tests.runtime.several_processes FOLDER --ranks 4,8 --device reference,emulate

Every .mlir program of the folder is compiled for a mesh with the requested number of devices: the program's mesh, with
the largest axes halved. Processes are started by mpiexec (`--by mpi`, with MPI messages) or directly (`--by sockets`).
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
    """The outcome of a run; `verdict` is `equal`, `other bits`, or a description of the failure."""

    program: str
    ranks: int
    device: str
    verdict: str
    seconds: float


def shrunk(mesh: Mesh, ranks: int) -> Mesh | None:
    """Halve the largest mesh axes until `ranks` devices remain. Return None if this is impossible."""
    sizes = dict(zip((axis.name for axis in mesh.axes), mesh.sizes, strict=True))
    while (total := mesh.with_sizes(sizes).size) > ranks:
        name = max(sizes, key=lambda axis_name: sizes[axis_name])
        if total % 2 or sizes[name] % 2:
            return None
        sizes[name] //= 2
    smaller_mesh = mesh.with_sizes(sizes)
    return smaller_mesh if smaller_mesh.size == ranks else None


def run(path: Path, ranks: int, device: str, by: str) -> str:
    """Run a module with one process per rank. Return `equal` if the results have the same bits as those of one process."""
    module, output = mg.load(path), path.with_suffix(".npz")
    args = {binding.name: random_array(binding.type, [0, position]) for position, binding in enumerate(module.inputs)}
    expected = module.run(args, device)
    words = (*MESHGEN, "run", str(path), "--device", device, "--time-out", "300", "--output", str(output))
    if by == "mpi":
        done = by_mpiexec(ranks, *words, limit=1800)
        faults = [done.stderr] if done.returncode else []
    else:
        faults = [ended_process.err for ended_process in by_variables(ranks, *words, limit=1800) if ended_process.code]
    if faults:
        return f"fails: {faults[0][:300]}"
    results = load_arrays(str(output))
    is_equal = [*map(np.ndarray.tobytes, expected)] == [results[b.name].tobytes() for b in module.outputs]
    return "equal" if is_equal else "other bits"


def outcome(program: Path, ranks: int, device: str, by: str, folder: Path) -> Outcome | None:
    """Compile and run one program.

    Returns None if its mesh cannot have `ranks` devices, or if it does not compile for the device.
    """
    begin = time.monotonic()
    path = folder / f"{program.stem}.{ranks}.{device}.mgx"
    try:
        source = read_mlir(program)
        mesh = shrunk(source.mesh, ranks)
        # a manual_computation only compiles for the mesh for which it was written
        if mesh is None or (mesh != source.mesh and "manual_computation" in program.read_text()):
            return None
        mg.compile(program, mesh, target=TARGETS[device]).save(path)
    except MeshgenError:
        return None
    return Outcome(program.stem, ranks, device, run(path, ranks, device, by), time.monotonic() - begin)


def campaign(programs: Sequence[Path], ranks: Sequence[int], devices: Sequence[str], by: str, folder: Path,
             tell: Callable[[Outcome], None]) -> list[Outcome]:  # fmt: skip
    outcomes: list[Outcome] = []
    for device in devices:
        for count in ranks:
            for program in programs:
                if run_outcome := outcome(program, count, device, by, folder):
                    tell(run_outcome)
                    outcomes.append(run_outcome)
    return outcomes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--ranks", default="2,4,8")
    parser.add_argument("--device", default="reference,emulate")
    parser.add_argument("--by", choices=("mpi", "sockets"), default="mpi")
    parser.add_argument("--match", default="*.mlir", help="glob pattern of program names")
    options = parser.parse_args()

    def tell(run_outcome: Outcome) -> None:
        sys.stdout.write(
            f"{run_outcome.device} {run_outcome.ranks} {run_outcome.program}: {run_outcome.verdict} ({run_outcome.seconds:.1f} s)\n"
        )
        sys.stdout.flush()

    programs = sorted(options.folder.glob(options.match))
    counts = [int(text) for text in options.ranks.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        outcomes = campaign(programs, counts, options.device.split(","), options.by, Path(folder), tell)
    equal = sum(run_outcome.verdict == "equal" for run_outcome in outcomes)
    sys.stdout.write(f"{len(outcomes)} runs by {options.by}, {equal} with equal bits\n")
    return 0 if equal == len(outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
