"""Modules for tests of the executor: planned without compiling kernels, and run on emulated GPUs as their bodies.

With the variable MESHGEN_TEST_GPUS=real, which `make gpu` sets, kernels are compiled and run on this machine's GPUs through NVIDIA's
libraries, for what MESHGEN_TEST_TARGET says. Then tests that need more GPUs than there are, or look into emulated ones, are skipped.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import plan
from meshgen.errors import MissingError
from meshgen.runtime.cuda import code
from meshgen.runtime.cuda.api import Api, emulated, real
from meshgen.runtime.cuda.execute import Executor, Program
from meshgen.runtime.loaded import Loaded
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.plan import Schedule
from meshgen.runtime.random_arrays import random_array

Array = np.ndarray[Any, Any]
REAL = os.environ.get("MESHGEN_TEST_GPUS") == "real"
TARGET = os.environ.get("MESHGEN_TEST_TARGET", "cuda:sm_80,sm_90")
looks_into_emulated_gpus = pytest.mark.skipif(REAL, reason="looks into emulated GPUs")


def planned(text: str, folder: Path, **options: Any) -> LoadedModule:
    """The module of an MLIR text or of a file with it; without code, unless GPUs are real."""
    file = folder / "program.mlir"
    if not text.endswith(".mlir"):
        file.write_text(text)
    save(folder / "program.mgx", file if not text.endswith(".mlir") else Path(text), **options)
    return mg.load(folder / "program.mgx")


def save(path: Path, program: Any, *given: Any, weights: Any = None, **options: Any) -> None:
    """Write the module of a program as `planned` does: for real GPUs with code, whose products are those of f32."""
    if REAL:
        made = mg.compile(program, *given, target=TARGET, precision="highest", **options)
    else:
        made = plan(program, *given, target="cpu", **options)
    made.save(path, weights=weights)


def arguments(module: LoadedModule, seed: int = 0) -> dict[str, Array]:
    return {b.name: random_array(b.type, [seed, number]) for number, b in enumerate(module.inputs)}


def programs(module: LoadedModule, change: Callable[[Schedule], Schedule] = lambda plan: plan) -> list[Program]:
    """What an executor takes. `change`: of the plan."""
    return [
        Program(replace(part.manifest, plan=change(part.schedule)), part.loaded.constants, _code_of(part.loaded))
        for part in module.parts
    ]


def _code_of(loaded: Loaded) -> code.CodeOf:
    """None, so that kernels run as their bodies; on real GPUs the module's."""
    return code.code_of(loaded.manifest.kernels, loaded.member, real(1)) if REAL else lambda name, capability: None


def gpus(module: LoadedModule, seed: int = 0, races: bool = True) -> Api:
    return require_gpus(module.ranks) if REAL else emulated(module.ranks, "sm_90", seed=seed, races=races)


def require_gpus(count: int) -> Api:
    """Real ones; the test is skipped where there are fewer."""
    try:
        return real(count)
    except MissingError as error:
        pytest.skip(str(error))


def executor_of(module: LoadedModule, seed: int = 0, races: bool = True, **options: Any) -> Executor:
    """Ready for steps. On real GPUs the first step is not captured, as in the engine for them."""
    api = gpus(module, seed, races)
    return Executor(programs(module), api, **{"warm_up": REAL} | options)


def filled(module: LoadedModule, given: dict[str, Array]) -> list[list[Array]]:
    return [part.filled(given) for part in module.parts]


def on_gpus(
    module: LoadedModule, given: dict[str, Array], seed: int = 0, steps: int = 1, races: bool = True, **options: Any
) -> list[Array]:
    """Global results of the last of some steps; on real GPUs at least three: issued, captured, launched again."""
    executor = executor_of(module, seed, races, **options)
    for _ in range(max(steps, 3) if REAL else steps):
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
    """Of floats on real GPUs only near ones: sums have other orders there, and functions other last bits."""
    for own, other in zip(found, want, strict=True):
        if REAL and own.dtype.kind in "fc":
            np.testing.assert_allclose(own, other, rtol=1e-4, atol=1e-4 * np.nanmax(np.abs(other), initial=0))
        else:
            assert same_bits(own, other)
