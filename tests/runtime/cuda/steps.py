"""Modules for tests of the executor: planned without compiling kernels, and run on emulated GPUs as their bodies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

import meshgen as mg
from meshgen.api import plan
from meshgen.runtime.cuda.api import Api, emulated
from meshgen.runtime.cuda.execute import Executor, Program
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.plan import Schedule
from meshgen.runtime.random_arrays import random_array

Array = np.ndarray[Any, Any]


def planned(text: str, folder: Path, **options: Any) -> LoadedModule:
    """The module of an MLIR text or of a file with it, without code for GPUs."""
    file = folder / "program.mlir"
    if not text.endswith(".mlir"):
        file.write_text(text)
    plan(file if not text.endswith(".mlir") else Path(text), target="cpu", **options).save(folder / "program.mgx")
    return mg.load(folder / "program.mgx")


def arguments(module: LoadedModule, seed: int = 0) -> dict[str, Array]:
    return {b.name: random_array(b.type, [seed, number]) for number, b in enumerate(module.inputs)}


def programs(module: LoadedModule, change: Callable[[Schedule], Schedule] = lambda plan: plan) -> list[Program]:
    """What an executor takes, with no code: kernels run as their bodies. `change`: of the plan."""
    return [
        Program(
            replace(part.manifest, plan=change(part.schedule)), part.loaded.constants, lambda name, capability: None
        )
        for part in module.parts
    ]


def gpus(module: LoadedModule, seed: int = 0, races: bool = True) -> Api:
    return emulated(module.ranks, "sm_90", seed=seed, races=races)


def filled(module: LoadedModule, given: dict[str, Array]) -> list[list[Array]]:
    return [part.filled(given) for part in module.parts]


def on_gpus(
    module: LoadedModule, given: dict[str, Array], seed: int = 0, steps: int = 1, races: bool = True, **options: Any
) -> list[Array]:
    """Global results of the last of some steps on emulated GPUs."""
    executor = Executor(programs(module), gpus(module, seed, races), **options)
    for _ in range(steps):
        results = executor.run(filled(module, given))
    executor.close()
    return module._in_order(results)


def same_bits(own: Array, other: Array) -> bool:
    """Whether two arrays have one type and the same bits, those of NaNs aside."""
    if own.dtype != other.dtype or own.shape != other.shape:
        return False
    undefined = np.isnan(own) & np.isnan(other) if own.dtype.kind in "fc" else np.zeros(own.shape, np.bool_)
    return own[~undefined].tobytes() == other[~undefined].tobytes()


def assert_same_bits(found: Sequence[Array], want: Sequence[Array]) -> None:
    for own, other in zip(found, want, strict=True):
        assert same_bits(own, other)
