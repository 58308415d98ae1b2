"""Law 1 on random programs, each the whole way: from its annotations to a module, run on the reference device.

A program that is refused, breaks a pass or gives other numbers is shrunk to a small one that fails alike, and
written as text.
"""

from __future__ import annotations

import tempfile
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from meshgen.codegen.package import write_module
from meshgen.ir.graph import Module
from meshgen.ir.text import print_text
from meshgen.pipeline import Options, Progress, Timing, make_schedule, run_stages
from meshgen.runtime.module import load
from meshgen.sharding.generate import random_program
from meshgen.sharding.oracle import check
from meshgen.sharding.shrink import shrink

Array = np.ndarray[Any, Any]


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


def find_fault(module: Module, options: Options, seed: int = 0) -> Fault | None:
    """The first thing that is wrong on a program's way to its results; None if all ranks compute what it says."""

    def scheduled(fused: Module, args: Sequence[Array]) -> list[Array]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "program.mgx"
            write_module(path, fused, make_schedule(fused, options))
            return load(path).run(args)

    try:
        fused = run_stages(module, options, Timing(), "fuse")["fuse"]
        result = check(module, pipeline=lambda _: fused, seed=seed, runs=[scheduled])
    except Exception as error:  # whatever it is: it is what is looked for
        codes = [diagnostic.code for diagnostic in getattr(error, "diagnostics", ())]
        place = traceback.extract_tb(error.__traceback__)[-1]
        return Fault(" ".join([type(error).__name__, *codes, f"in {place.name}"]), str(error))
    return None if result.ok else Fault("other numbers", str(result.faults[0]))


def check_random(count: int, first: int, folder: Path, progress: Progress | None = None) -> list[Failure]:
    """The failures among the programs of `count` seeds from `first` on; small programs are written to `folder`."""
    found: list[Failure] = []
    for seed in range(first, first + count):
        if progress:
            progress(f"{len(found)} failures", seed - first, count)
        module, options = random_program(seed), options_of(seed)
        if fault := find_fault(module, options, seed):
            found.append(_failure(module, options, seed, fault, folder))
    return found


def _failure(module: Module, options: Options, seed: int, fault: Fault, folder: Path) -> Failure:
    """The program shrunk as long as it fails in the same way, and written."""

    def fails(candidate: Module) -> bool:
        other = find_fault(candidate, options, seed)
        return other is not None and other.kind == fault.kind

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"random_{seed}.mlir"
    path.write_text(print_text(shrink(module, fails)))
    return Failure(seed, fault, path)
