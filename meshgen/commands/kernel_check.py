"""Each distinct kernel of a module by itself, against its body in NumPy: its Triton code interpreted, or its PTX emulated."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

from meshgen.emulator.faults import DeviceFault
from meshgen.ops.evaluate.evaluator import Evaluator
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.runtime.emulation import Emulation
from meshgen.runtime.launch import Launch, emulated, evaluated, interpreted
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.random_arrays import random_operands
from meshgen.runtime.simulate import rank_handlers


def check_kernels(module: LoadedModule, seed: int, emulation: Emulation | None = None) -> list[dict[str, Any]]:
    """A record per kernel, and with `emulation` per architecture, all if it names none.

    It has the largest error, the bound there, whether all elements are within theirs, and times; `fault` is
    the emulated GPU's report. Kernels run as on the last rank, which is the one with padding.
    """
    if len(module.parts) > 1:
        return [
            row | {"name": f"{part.mesh.name}/{row['name']}"}
            for part in module.parts
            for row in check_kernels(part, seed, emulation)
        ]
    ways, tf32 = _ways(module, emulation), emulation is not None
    numbers = range(len(module.schedule.kernels))
    return [row for number in numbers for row in _checked(module, number, ways, seed, tf32=tf32)]


def _ways(module: LoadedModule, emulation: Emulation | None) -> dict[str, Launch]:
    """How kernels run, by architecture."""
    if emulation is None:
        return {"": interpreted(module.manifest, {name: module.source(name) for name in module.manifest.kernels})}
    found = dict.fromkeys(arch for kernel in module.manifest.kernels.values() for arch in kernel.binaries)
    archs = (
        [emulation.arch] if emulation.arch else list(found) or [""]
    )  # without any, the module raises what is missing
    return {
        a: emulated(module.manifest, module.emulated_kernels(a), races=emulation.races, issues=emulation.instructions)
        for a in archs
    }


def _checked(
    module: LoadedModule, number: int, ways: Mapping[str, Launch], seed: int, *, tf32: bool
) -> list[dict[str, Any]]:
    """One kernel on every engine, compared with its body on the same random operands; `tf32` as of `error_bound`."""
    name, body = list(module.schedule.kernels.items())[number]
    rank = module.mesh.size - 1
    operands = random_operands(body, [seed, number])
    types = [value.type for value in body.outputs]
    wanted = evaluated(module.manifest)(name, rank, operands, types)
    bounds = error_bound(body, operands, tf32=tf32, evaluator=Evaluator(rank_handlers(module.mesh, rank)))
    rows: list[dict[str, Any]] = []
    for arch, way in ways.items():
        begin = time.perf_counter()
        try:
            found = way(name, rank, operands, types)
            worst = [worst_error(*each) for each in zip(found, wanted, bounds, strict=True)]
            fault = None
        except DeviceFault as error:
            worst, fault = [(np.inf, 0.0)], error.diagnostics[0]
        seconds = time.perf_counter() - begin
        error, allowed = max(worst, key=lambda pair: pair[0] / pair[1] if pair[1] else pair[0])
        is_right = all(e <= a for e, a in worst)
        row = {"error": error, "tolerance": allowed, "ok": is_right, "seconds": seconds, "fault": fault}
        rows.append({"name": name, "arch": arch} | row)
    return rows


def worst_error(found: Any, wanted: Any, bound: Any) -> tuple[float, float]:
    """Error and bound where the error is largest in units of the bound."""
    with np.errstate(all="ignore"):  # a NaN may be a signalling one
        left, right = np.asarray(found, np.float64), np.asarray(wanted, np.float64)
    if not left.size:
        return 0.0, 0.0
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    with np.errstate(all="ignore"):
        error = np.where(same, 0.0, np.nan_to_num(np.abs(left - right), nan=np.inf))
        allowed = np.broadcast_to(np.asarray(bound, np.float64), error.shape)
        excess = np.where(same, 0.0, error / allowed)
    place = np.unravel_index(int(np.argmax(excess)), error.shape)
    return float(error[place]), float(allowed[place])
