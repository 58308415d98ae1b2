"""Each distinct kernel of a module by itself: its Triton code in the interpreter against its body in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.ir.evaluate.evaluator import Evaluator
from meshgen.ir.tolerance.bounds import error_bound
from meshgen.runtime.launch import evaluated, interpreted
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.random_arrays import random_array
from meshgen.runtime.simulate import rank_handlers


def check_kernels(module: LoadedModule, seed: int) -> list[dict[str, Any]]:
    """A record per kernel: largest error, what is allowed there, and whether all elements are within it.

    Kernels run as the last rank does, which is the one with padding.
    """
    if len(module.parts) > 1:
        return [
            row | {"name": f"{part.mesh.name}/{row['name']}"}
            for part in module.parts
            for row in check_kernels(part, seed)
        ]
    rank = module.mesh.size - 1
    sources = {name: module.source(name) for name in module.manifest.kernels}
    reference, interpreter = evaluated(module.manifest), interpreted(module.manifest, sources)
    rows: list[dict[str, Any]] = []
    for number, (name, body) in enumerate(module.schedule.kernels.items()):
        operands = [random_array(value.type, [seed, number, i]) for i, value in enumerate(body.inputs)]
        types = [value.type for value in body.outputs]
        wanted, found = reference(name, rank, operands, types), interpreter(name, rank, operands, types)
        bounds = error_bound(body, operands, evaluator=Evaluator(rank_handlers(module.mesh, rank)))
        worst = [worst_error(*each) for each in zip(found, wanted, bounds, strict=True)]
        error, allowed = max(worst, key=lambda pair: pair[0] / pair[1] if pair[1] else pair[0])
        rows.append({"name": name, "error": error, "tolerance": allowed, "ok": all(e <= a for e, a in worst)})
    return rows


def worst_error(found: Any, wanted: Any, bound: Any) -> tuple[float, float]:
    """Error and bound where the error is largest in units of the bound."""
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
