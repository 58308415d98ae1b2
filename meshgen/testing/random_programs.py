"""Checks law 1 on random programs: all ranks together must compute what the program computes on one device.

A check goes end to end, from annotations to a module that runs on the reference device. A program that is rejected,
crashes a pass or gives wrong results is shrunk to a small program with the same failure, which is written as text.
"""

from __future__ import annotations

import contextlib
import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meshgen.codegen.packaging.package import write_plans
from meshgen.compiled.open_sizes import closed, open_program
from meshgen.errors import CodegenError, Diagnostic, MeshgenError, UsageError, system_reason
from meshgen.ir.graph import Module
from meshgen.mesh import Mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.pipeline import Options, Progress, Timing, context_of, make_schedule, run_stages
from meshgen.runtime.loading import load
from meshgen.runtime.module_file.files import write_text
from meshgen.runtime.plan import Schedule
from meshgen.runtime.sizes import bound
from meshgen.sizes.program import at_meshes
from meshgen.testing.generators import ODD, USUAL, WIDE
from meshgen.testing.oracle import Run, check
from meshgen.testing.random_calls import find_call_mismatch
from meshgen.testing.random_graphs import (
    random_local_program,
    random_open_program,
    random_program,
    random_program_on_two_meshes,
)
from meshgen.testing.shrink import shrink

Array = np.ndarray[Any, Any]
# Every 20th seed also checks calls with nested arguments. Chosen: each such seed compiles and saves a second program.
_CALLS = 20


@dataclass(frozen=True)
class Fault:
    """A failure of a program. `kind` is the class of failure that shrinking preserves; `text` describes the failure."""

    kind: str
    text: str


@dataclass(frozen=True)
class Failure:
    """A seed whose program fails, and the file with a small program that fails in the same way."""

    seed: int
    fault: Fault
    path: Path

    def record(self) -> dict[str, Any]:
        """Return the failure for `--json`."""
        return {"seed": self.seed, "kind": self.fault.kind, "message": self.fault.text, "path": str(self.path)}

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.fault.kind}: {self.fault.text}\n  {self.path}"


def options_of(seed: int) -> Options:
    """Return the compile options for a seed. One program in five gets global arguments."""
    return Options("cpu", "global" if seed % 5 == 1 else "local")


def runner_from_file(plans: Sequence[Schedule]) -> Run:
    """Return a function that runs a fused program on the reference device, from a file with the schedule of each mesh."""

    def run(fused: Module, args: Sequence[Array]) -> list[Array]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.mgx"
            write_plans(path, fused, plans)
            return load(path).run(args)

    return run


def is_open(seed: int) -> bool:
    """Whether the program of the seed has open sizes."""
    return seed % 9 == 4 and seed % 10 != 3 and seed % 11 != 7 and seed % 7 != 5


def program_of(seed: int) -> Module:
    """Return the program of a seed. The seed selects its variety:

    - one in ten contains collectives (stage partition), one in twelve has two meshes;
    - one in seven has rare element types and dims of size 0 (`WIDE`);
    - one in three of the remaining ones has complex numbers, ops that use a value twice, and more mesh axes (`ODD`); -
    one in nine of the rest has open sizes, and is returned for one set of sizes.
    """
    if is_open(seed):
        return random_open_program(seed).closed
    variety = WIDE if seed % 7 == 5 else ODD if seed % 3 == 2 else USUAL
    if seed % 10 == 3:
        return random_local_program(seed, variety)
    return random_program_on_two_meshes(seed, variety) if seed % 11 == 7 else random_program(seed, variety)


def find_fault(module: Module, options: Options, seed: int = 0) -> Fault | None:
    """Compile and run a program, and return the first failure, or None if all ranks compute the expected results."""

    try:
        context = context_of(options)
        fused = run_stages(module, options, Timing(), "fuse", context=context)["fuse"]
        plans = [(make_schedule(part, context), part.mesh) for part in fused.parts or [fused]]
        runs = [runner_from_file([plan for plan, _ in plans])]
        for plan, mesh in plans:
            _write_sources(plan, mesh)
        result = check(module, pipeline=lambda _: fused, seed=seed, runs=runs)
    except Exception as error:  # any exception is a failure to report
        return _fault_of(error)
    return None if result.ok else Fault("wrong results", str(result.faults[0]))


def _fault_of(error: Exception) -> Fault:
    codes = [diagnostic.code for diagnostic in getattr(error, "diagnostics", ())]
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return Fault(" ".join([type(error).__name__, *codes, f"in {frame.name}"]), str(error))


def _write_sources(plan: Schedule, mesh: Mesh) -> None:
    """Generate the source of every kernel. Kernels that codegen does not support are skipped."""
    from meshgen.codegen.triton_source import kernel_source

    for name, body in plan.kernels.items():
        with contextlib.suppress(CodegenError):
            kernel_source(name, body, mesh)


def check_random(count: int, first: int, folder: Path, progress: Progress | None = None) -> list[Failure]:
    """Check the programs of `count` seeds, beginning with `first`, and return the failures.

    Small programs that fail in the same way are written to `folder`.
    """
    failures: list[Failure] = []
    for seed in range(first, first + count):
        if progress:
            progress(f"{len(failures)} failures", seed - first, count)
        options = options_of(seed)
        if seed % _CALLS == _CALLS - 1 and (fault := _fault_of_calls(seed)):
            failures.append(_unbuilt_failure(seed, fault, folder))
            continue
        try:
            modules = closed_programs_of(seed, options) if is_open(seed) else [program_of(seed)]
        except Exception as error:  # for example, open sizes that cannot be closed
            failures.append(_unbuilt_failure(seed, _fault_of(error), folder))
            continue
        for module in modules:
            if fault := find_fault(module, options, seed):
                failures.append(_failure(module, options, seed, fault, folder))
                break
    return failures


def _fault_of_calls(seed: int) -> Fault | None:
    try:
        text = find_call_mismatch(seed)
    except Exception as error:
        return _fault_of(error)
    return Fault("wrong results when called", text) if text else None


def closed_programs_of(seed: int, options: Options) -> list[Module]:
    """Return the open program of a seed at each set of trial sizes for which it is valid. The program is read back from
    its text.

    Raises:
        MeshgenError: the program is invalid for the first set.
    """
    program = random_open_program(seed)
    module = parse_text(print_text(program.module), f"seed {seed}")
    described = open_program(module, {}, options)
    modules: list[Module] = []
    for index, trial in enumerate(program.trials):
        meshes = bound(described.meshes, trial.axes)
        try:
            modules.append(at_meshes(closed(module, described, described.sizes(meshes, trial.shapes)), meshes))
        except MeshgenError:
            if not index:
                raise
    return modules


def _unbuilt_failure(seed: int, fault: Fault, folder: Path) -> Failure:
    """Report a seed whose program cannot be built. If the seed has an open program, its text is written to `folder`."""
    path = _program_path(folder, seed)
    text = print_text(random_open_program(seed).module) if is_open(seed) else ""
    message = fault.text.replace("\n", "\n// ")
    write_text(path, f"// {fault.kind}: meshgen check --random 1 --seed {seed}\n// {message}\n{text}")
    return Failure(seed, fault, path)


def _failure(module: Module, options: Options, seed: int, fault: Fault, folder: Path) -> Failure:
    """Shrink a program while it fails in the same way, and write it with the command that reproduces the failure.

    The program is parsed back from its text in each step, so that the text fails too. If the text does not reproduce
    the failure, the module itself is shrunk.
    """

    def fails(candidate: Module) -> bool:
        candidate_fault = find_fault(candidate, options, seed)
        return candidate_fault is not None and candidate_fault.kind == fault.kind

    def fails_as_text(candidate: Module) -> bool:
        return fails(parse_text(print_text(candidate)))

    path = _program_path(folder, seed)
    try:
        fails_from_text = fails_as_text(module)
    except MeshgenError:
        fails_from_text = False
    small = shrink(module, fails_as_text if fails_from_text else fails)
    command = f"meshgen check {path.name} --seed {seed} --arguments {options.arguments}"
    write_text(path, f"// {fault.kind}: {command}\n{print_text(small)}")
    return Failure(seed, fault, path)


def _program_path(folder: Path, seed: int) -> Path:
    """Return the file for the program of a seed, and create the folder.

    Raises UsageError MG0003 if that is impossible.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: the path contains a zero byte
        raise UsageError(Diagnostic("MG0003", f"'{folder}' cannot be written: {system_reason(error)}")) from error
    return folder / f"random_{seed}.mlir"
