"""Law 1 on random programs, each the whole way: from its annotations to a module, run on the reference device.

A program that is refused, breaks a pass or gives other numbers is shrunk to a small one that fails alike, and
written as text.
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
from meshgen.testing.random_calls import calls_agree
from meshgen.testing.random_graphs import (
    random_local_program,
    random_open_program,
    random_program,
    random_program_on_two_meshes,
)
from meshgen.testing.shrink import shrink

Array = np.ndarray[Any, Any]
_CALLS = 20  # for one seed of so many a function of nested arguments is called as well


@dataclass(frozen=True)
class Fault:
    """How a program fails: the `kind` tells failures apart, the `text` describes this one."""

    kind: str
    text: str


@dataclass(frozen=True)
class Failure:
    """A seed whose program fails, and the file with a small program that fails alike."""

    seed: int
    fault: Fault
    path: Path

    def record(self) -> dict[str, Any]:
        """For `--json`."""
        return {"seed": self.seed, "kind": self.fault.kind, "message": self.fault.text, "path": str(self.path)}

    def __str__(self) -> str:
        return f"seed {self.seed}: {self.fault.kind}: {self.fault.text}\n  {self.path}"


def options_of(seed: int) -> Options:
    """One program in five gets global arguments."""
    return Options("cpu", "global" if seed % 5 == 1 else "local")


def through_module(plans: Sequence[Schedule]) -> Run:
    """A way to run a fused program: from a file with the schedule of each mesh, on the reference device."""

    def run(fused: Module, args: Sequence[Array]) -> list[Array]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.mgx"
            write_plans(path, fused, plans)
            return load(path).run(args)

    return run


def is_open(seed: int) -> bool:
    """Whether the seed's program has open sizes."""
    return seed % 9 == 4 and seed % 10 != 3 and seed % 11 != 7 and seed % 7 != 5


def program_of(seed: int) -> Module:
    """One program in ten has collectives already, one in twelve is on two meshes; one in seven has rare element types
    and dims without rows, of the others one in three values that ops take twice, complex numbers, and more axes that are cut
    in any way; of the rest one in nine has open sizes, and this is it for some.
    """
    if is_open(seed):
        return random_open_program(seed).closed
    variety = WIDE if seed % 7 == 5 else ODD if seed % 3 == 2 else USUAL
    if seed % 10 == 3:
        return random_local_program(seed, variety)
    return random_program_on_two_meshes(seed, variety) if seed % 11 == 7 else random_program(seed, variety)


def find_fault(module: Module, options: Options, seed: int = 0) -> Fault | None:
    """The first thing that is wrong on a program's way to its results; None if all ranks compute what it says."""

    try:
        context = context_of(options)
        fused = run_stages(module, options, Timing(), "fuse", context=context)["fuse"]
        plans = [(make_schedule(part, context), part.mesh) for part in fused.parts or [fused]]
        runs = [through_module([plan for plan, _ in plans])]
        for plan, mesh in plans:
            _write_sources(plan, mesh)
        result = check(module, pipeline=lambda _: fused, seed=seed, runs=runs)
    except Exception as error:  # whatever it is: it is what is looked for
        return _fault_of(error)
    return None if result.ok else Fault("other numbers", str(result.faults[0]))


def _fault_of(error: Exception) -> Fault:
    codes = [diagnostic.code for diagnostic in getattr(error, "diagnostics", ())]
    place = traceback.extract_tb(error.__traceback__)[-1]
    return Fault(" ".join([type(error).__name__, *codes, f"in {place.name}"]), str(error))


def _write_sources(plan: Schedule, mesh: Mesh) -> None:
    """Generate every kernel; an unsupported one is refused, which is not a fault."""
    from meshgen.codegen.triton_source import kernel_source

    for name, body in plan.kernels.items():
        with contextlib.suppress(CodegenError):
            kernel_source(name, body, mesh)


def check_random(count: int, first: int, folder: Path, progress: Progress | None = None) -> list[Failure]:
    """The failures among the programs of `count` seeds from `first` on; small programs are written to `folder`."""
    found: list[Failure] = []
    for seed in range(first, first + count):
        if progress:
            progress(f"{len(found)} failures", seed - first, count)
        options = options_of(seed)
        if seed % _CALLS == _CALLS - 1 and (fault := _fault_of_calls(seed)):
            found.append(_unmade(seed, fault, folder))
            continue
        try:
            modules = closings(seed, options) if is_open(seed) else [program_of(seed)]
        except Exception as error:  # open sizes that cannot be closed, for one
            found.append(_unmade(seed, _fault_of(error), folder))
            continue
        for module in modules:
            if fault := find_fault(module, options, seed):
                found.append(_failure(module, options, seed, fault, folder))
                break
    return found


def _fault_of_calls(seed: int) -> Fault | None:
    try:
        text = calls_agree(seed)
    except Exception as error:
        return _fault_of(error)
    return Fault("other numbers when called", text) if text else None


def closings(seed: int, options: Options) -> list[Module]:
    """The seed's open program for the sizes for which it holds, as its text says them; the first must be one."""
    program = random_open_program(seed)
    module = parse_text(print_text(program.module), f"seed {seed}")
    described = open_program(module, {}, options)
    found: list[Module] = []
    for number, trial in enumerate(program.trials):
        meshes = bound(described.meshes, trial.axes)
        try:
            found.append(at_meshes(closed(module, described, described.sizes(meshes, trial.shapes)), meshes))
        except MeshgenError:
            if not number:
                raise
    return found


def _unmade(seed: int, fault: Fault, folder: Path) -> Failure:
    """A seed whose program is not even made for its sizes; written with them open where it has such."""
    path = _program_path(folder, seed)
    text = print_text(random_open_program(seed).module) if is_open(seed) else ""
    said = fault.text.replace("\n", "\n// ")
    write_text(path, f"// {fault.kind}: meshgen check --random 1 --seed {seed}\n// {said}\n{text}")
    return Failure(seed, fault, path)


def _failure(module: Module, options: Options, seed: int, fault: Fault, folder: Path) -> Failure:
    """The program shrunk as long as it fails in the same way, and written with the command that shows it.

    What is shrunk is the program as its text reads back, so that the text fails too; where that does not, it is
    the text that is wrong.
    """

    def fails(candidate: Module) -> bool:
        other = find_fault(candidate, options, seed)
        return other is not None and other.kind == fault.kind

    def fails_as_text(candidate: Module) -> bool:
        return fails(parse_text(print_text(candidate)))

    path = _program_path(folder, seed)
    try:
        is_told = fails_as_text(module)
    except MeshgenError:
        is_told = False
    small = shrink(module, fails_as_text if is_told else fails)
    command = f"meshgen check {path.name} --seed {seed} --arguments {options.arguments}"
    write_text(path, f"// {fault.kind}: {command}\n{print_text(small)}")
    return Failure(seed, fault, path)


def _program_path(folder: Path, seed: int) -> Path:
    """Where the program of a seed is written. Raises UsageError MG0003 where there can be no such folder."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:  # ValueError: a path with a byte 0
        raise UsageError(Diagnostic("MG0003", f"'{folder}' cannot be written: {system_reason(error)}")) from error
    return folder / f"random_{seed}.mlir"
