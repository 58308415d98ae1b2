"""Check each distinct kernel of a module against the evaluation of its body in NumPy.

Kernels run in Triton's interpreter, or as PTX on an emulated GPU.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from meshgen.emulator.faults import DeviceFault
from meshgen.ops.evaluate.evaluator import Evaluator
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.runtime.emulation_options import Emulation
from meshgen.runtime.launch import Launch, emulated, evaluated, interpreted
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.random_arrays import random_operands
from meshgen.runtime.simulate import rank_handlers


def check_kernels(module: LoadedModule, seed: int, emulation: Emulation | None = None) -> list[dict[str, Any]]:
    """Check the kernels and return a record per kernel. With `emulation`, there is a record per architecture that it
    names, or per architecture of the module.

    A record has the largest error with its bound, whether all elements are within their bounds, the time, and in
    `fault` the report of the emulated GPU. Kernels run with the rank of the last device, whose shards have the padding.
    """
    if len(module.parts) > 1:
        return [
            row | {"name": f"{part.mesh.name}/{row['name']}"}
            for part in module.parts
            for row in check_kernels(part, seed, emulation)
        ]
    launches, tf32 = _launches_by_arch(module, emulation), emulation is not None
    indices = range(len(module.schedule.kernels))
    return [row for index in indices for row in _check_kernel(module, index, launches, seed, tf32=tf32)]


def _launches_by_arch(module: LoadedModule, emulation: Emulation | None) -> dict[str, Launch]:
    """Return the functions that launch kernels, by architecture."""
    if emulation is None:
        return {"": interpreted(module.manifest, {name: module.source(name) for name in module.manifest.kernels})}
    binary_archs = dict.fromkeys(arch for kernel in module.manifest.kernels.values() for arch in kernel.binaries)
    archs = (
        [emulation.arch] if emulation.arch else list(binary_archs) or [""]
    )  # If the module has no binaries, architecture "" makes `emulated_kernels` raise an error with the reason.
    return {
        a: emulated(module.manifest, module.emulated_kernels(a), races=emulation.races, issues=emulation.instructions)
        for a in archs
    }


def _check_kernel(
    module: LoadedModule, index: int, launches: Mapping[str, Launch], seed: int, *, tf32: bool
) -> list[dict[str, Any]]:
    """Run one kernel with each function of `launches`, and compare it with its body on the same random operands.

    `tf32` is passed to `error_bound`.
    """
    name, body = list(module.schedule.kernels.items())[index]
    rank = module.mesh.size - 1
    operands = random_operands(body, [seed, index])
    types = [value.type for value in body.outputs]
    expected = evaluated(module.manifest)(name, rank, operands, types)
    bounds = error_bound(body, operands, tf32=tf32, evaluator=Evaluator(rank_handlers(module.mesh, rank)))
    rows: list[dict[str, Any]] = []
    for arch, launch in launches.items():
        begin = time.perf_counter()
        try:
            results = launch(name, rank, operands, types)
            worst = [worst_error(*triple) for triple in zip(results, expected, bounds, strict=True)]
            fault = None
        except DeviceFault as error:
            worst, fault = [(np.inf, 0.0)], error.diagnostics[0]
        seconds = time.perf_counter() - begin
        error, allowed = max(worst, key=lambda pair: pair[0] / pair[1] if pair[1] else pair[0])
        is_right = all(e <= a for e, a in worst)
        row = {"error": error, "tolerance": allowed, "ok": is_right, "seconds": seconds, "fault": fault}
        rows.append({"name": name, "arch": arch} | row)
    return rows


def worst_error(results: Any, expected: Any, bound: Any) -> tuple[float, float]:
    """Return the error and bound of the element whose error is largest relative to its bound."""
    with np.errstate(all="ignore"):  # converting a signaling NaN would warn
        actual, reference = np.asarray(results, np.float64), np.asarray(expected, np.float64)
    if not actual.size:
        return 0.0, 0.0
    are_equal = (actual == reference) | (np.isnan(actual) & np.isnan(reference))
    with np.errstate(all="ignore"):
        error = np.where(are_equal, 0.0, np.nan_to_num(np.abs(actual - reference), nan=np.inf))
        allowed = np.broadcast_to(np.asarray(bound, np.float64), error.shape)
        excess = np.where(are_equal, 0.0, error / allowed)
    index = np.unravel_index(int(np.argmax(excess)), error.shape)
    return float(error[index]), float(allowed[index])
