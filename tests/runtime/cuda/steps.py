"""Helpers for tests of the executor: modules planned without compiling kernels. Emulated GPUs interpret kernel bodies.

With MESHGEN_TEST_GPUS=real, which `make gpu` sets, kernels are compiled for MESHGEN_TEST_TARGET and run on this
machine's GPUs through NVIDIA's libraries. Tests that need more GPUs than the machine has, or that inspect emulated
GPUs, are then skipped.
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
from meshgen.runtime.engine_interfaces import Loaded
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.plan import Schedule
from meshgen.runtime.random_arrays import random_array

Array = np.ndarray[Any, Any]
REAL = os.environ.get("MESHGEN_TEST_GPUS") == "real"
TARGET = os.environ.get("MESHGEN_TEST_TARGET", "cuda:sm_80,sm_90")
inspects_emulated_gpus = pytest.mark.skipif(REAL, reason="looks into emulated GPUs")


def planned(text: str, folder: Path, **options: Any) -> LoadedModule:
    """Load the module of a program, given as MLIR text or as the path of an .mlir file.

    The module has no kernel code unless GPUs are real.
    """
    file = folder / "program.mlir"
    if not text.endswith(".mlir"):
        file.write_text(text)
    save(folder / "program.mgx", file if not text.endswith(".mlir") else Path(text), **options)
    return mg.load(folder / "program.mgx")


def save(path: Path, program: Any, *args: Any, weights: Any = None, **options: Any) -> None:
    """Save the module of a program to `path`. It has kernels only for real GPUs, compiled with f32 precision."""
    if REAL:
        executable = mg.compile(program, *args, target=TARGET, precision="highest", **options)
    else:
        executable = plan(program, *args, target="cpu", **options)
    executable.save(path, weights=weights)


def arguments(module: LoadedModule, seed: int = 0) -> dict[str, Array]:
    return {b.name: random_array(b.type, [seed, position]) for position, b in enumerate(module.inputs)}


def programs(module: LoadedModule, change: Callable[[Schedule], Schedule] = lambda plan: plan) -> list[Program]:
    """Return the executor's program for each part of the module, with `change` applied to its plan."""
    return [
        Program(replace(part.manifest, plan=change(part.schedule)), part.loaded.constants, _code_of(part.loaded))
        for part in module.parts
    ]


def _code_of(loaded: Loaded) -> code.CodeOf:
    """Return a lookup of the compiled kernels for real GPUs.

    For emulated GPUs, returns a lookup that always gives None, so that they interpret kernel bodies.
    """
    return code.code_of(loaded.manifest.kernels, loaded.member, real(1)) if REAL else lambda name, capability: None


def gpus(module: LoadedModule, seed: int = 0, races: bool = True) -> Api:
    return require_gpus(module.ranks) if REAL else emulated(module.ranks, "sm_90", seed=seed, races=races)


def require_gpus(count: int) -> Api:
    """Return the API of `count` real GPUs, or skip the test if the machine has fewer."""
    try:
        return real(count)
    except MissingError as error:
        pytest.skip(str(error))


def executor_of(module: LoadedModule, seed: int = 0, races: bool = True, **options: Any) -> Executor:
    """Return an executor of the module. On real GPUs it does not capture its first step, like the engine for real GPUs."""
    api = gpus(module, seed, races)
    return Executor(programs(module), api, **{"warm_up": REAL} | options)


def filled(module: LoadedModule, inputs: dict[str, Array]) -> list[list[Array]]:
    return [part.filled(inputs) for part in module.parts]


def on_gpus(
    module: LoadedModule, inputs: dict[str, Array], seed: int = 0, steps: int = 1, races: bool = True, **options: Any
) -> list[Array]:
    """Run `steps` steps and return the global results of the last one.

    Real GPUs run at least three steps: issued directly, captured, and launched as a graph.
    """
    executor = executor_of(module, seed, races, **options)
    for _ in range(max(steps, 3) if REAL else steps):
        results = executor.run(filled(module, inputs))
    executor.close()
    return module._in_order(results)


def same_bits(array: Array, other: Array) -> bool:
    """Whether two arrays have the same dtype, shape and bits, except in NaNs."""
    if array.dtype != other.dtype or array.shape != other.shape:
        return False
    undefined = np.isnan(array) & np.isnan(other) if array.dtype.kind in "fc" else np.zeros(array.shape, np.bool_)
    return array[~undefined].tobytes() == other[~undefined].tobytes()


def assert_same_bits(results: Sequence[Array], expected: Sequence[Array]) -> None:
    """Check that results are bitwise equal.

    On real GPUs, floats only need to be close, since reduction orders and math functions differ.
    """
    for result, other in zip(results, expected, strict=True):
        if REAL and result.dtype.kind in "fc":
            np.testing.assert_allclose(result, other, rtol=1e-4, atol=1e-4 * np.nanmax(np.abs(other), initial=0))
        else:
            assert same_bits(result, other)
