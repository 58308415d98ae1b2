"""Law 1, checked: all simulated ranks together compute what the program computes on one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from meshgen.errors import Diagnostic, NumbersDiffer
from meshgen.ir.evaluate import evaluate_node
from meshgen.ir.graph import DTYPES, Graph, Module, TensorType, Value, is_float
from meshgen.runtime.simulate import check_arguments, simulate
from meshgen.sharding.generate import random_arguments

Array = np.ndarray[Any, Any]
Pipeline = Callable[[Module], Module]


@dataclass(frozen=True)
class OutputCheck:
    """One output: the largest error in units of what is allowed there decides.

    `max_abs_error` and `tolerance` belong to the worst place, which is `place`; an output without elements has none.
    """

    type: TensorType
    ok: bool
    max_abs_error: float
    tolerance: float
    place: tuple[int, ...] = ()

    def record(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "shape": list(self.type.shape),
            "dtype": self.type.dtype,
            "ok": self.ok,
            "max_abs_error": self.max_abs_error,
            "tolerance": self.tolerance,
        }


@dataclass(frozen=True)
class CheckResult:
    """The oracle's verdict. The numbers are those of the worst output; `faults` say what differs."""

    ok: bool
    max_abs_error: float
    tolerance: float
    outputs: list[OutputCheck]
    faults: tuple[Diagnostic, ...] = ()

    def record(self) -> dict[str, Any]:
        """For `--json`."""
        outputs = [output.record() for output in self.outputs]
        numbers = {"max_abs_error": self.max_abs_error, "tolerance": self.tolerance}
        return {"ok": self.ok, **numbers, "outputs": outputs}


def check(module: Module, *, pipeline: Pipeline, args: Sequence[Array] | None = None, seed: int = 0) -> CheckResult:
    """Compare the program at stage import with what `pipeline` makes of it (stage partition or fuse).

    Args:
        module: stage import: `evaluate` says what it means.
        pipeline: the passes under test.
        args: global arguments; without them, seeded random ones without zeros.
    Raises:
        MeshgenError: the pipeline refuses the program, or the arguments do not fit.
    """
    local = pipeline(module)
    args = check_arguments(local, random_arguments(module, seed) if args is None else args)
    wanted, bounds = _reference(module.graph, args)
    faults: list[Diagnostic] = []
    try:
        found = simulate(local, args, tolerance=bounds)
    except NumbersDiffer as error:  # replicas: go on with one of them, to say how far all outputs are off
        faults += error.diagnostics
        found = simulate(local, args, tolerance=None)
    types = [value.type for value in module.graph.outputs]
    outputs = [compare(*each) for each in zip(types, wanted, found, bounds, strict=True)]
    faults += [_fault(number, output) for number, output in enumerate(outputs) if not output.ok]
    worst = max(outputs, key=_excess, default=OutputCheck(TensorType((), "f32"), True, 0.0, 0.0))
    return CheckResult(not faults, worst.max_abs_error, worst.tolerance, outputs, tuple(faults))


def _reference(graph: Graph, args: Sequence[Array]) -> tuple[list[Array], list[float]]:
    """Outputs on one device, and how far sums in another order may be off: 0 for integers.

    Every float op rounds by u times the largest value, and a sum of k terms by k u; nothing in between is
    bounded more tightly than by the largest magnitude of the whole program.
    """
    values: dict[Value, Array] = dict(zip(graph.inputs, args, strict=True))
    rounding, terms, largest = 0.0, 1.0, 1.0
    for node in graph.nodes:
        values.update(zip(node.results, evaluate_node(node, [values[v] for v in node.operands], values), strict=True))
        terms += max([1, *(v.type.size / max(1, node.results[0].type.size) for v in node.operands)])
    for value, array in values.items():
        if is_float(value.type.dtype):
            rounding = max(rounding, float(ml_dtypes.finfo(DTYPES[value.type.dtype]).eps))
            wide = array.astype(np.float64)
            largest = max(largest, float(np.max(np.abs(wide), initial=0.0, where=np.isfinite(wide))))
    allowed = rounding * terms * largest
    return [values[v] for v in graph.outputs], [allowed * is_float(v.type.dtype) for v in graph.outputs]


def compare(type_: TensorType, wanted: Array, found: Array, bound: Array | float) -> OutputCheck:
    """One output against its reference: within `bound` place by place; infinities and NaNs at the same places."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return OutputCheck(type_, False, float("inf"), 0.0)
    if not wanted.size:
        return OutputCheck(type_, True, 0.0, 0.0)
    error = _errors(wanted, found, is_float(type_.dtype))
    allowed = np.broadcast_to(np.asarray(bound, np.float64), error.shape)
    with np.errstate(all="ignore"):
        excess = np.where(error == 0, 0.0, error / allowed)
    worst = np.unravel_index(int(np.argmax(np.where(np.isnan(excess), np.inf, excess))), error.shape)
    ok = bool(np.all((error == 0) | (error <= allowed)))
    return OutputCheck(type_, ok, float(error[worst]), float(allowed[worst]), tuple(int(i) for i in worst))


def _errors(wanted: Array, found: Array, floats: bool) -> Array:
    """Absolute differences in float64: 0 where both are the same, at least 1 where integers differ."""
    left, right = wanted.astype(np.float64), found.astype(np.float64)
    same = wanted == found
    if floats:
        same |= np.isnan(left) & np.isnan(right)
    with np.errstate(all="ignore"):
        distance = np.abs(left - right)
    distance = np.where(np.isnan(distance), np.inf, distance) if floats else np.maximum(distance, 1.0)
    return np.where(same, 0.0, distance)


def _excess(output: OutputCheck) -> float:
    """Error in units of what is allowed."""
    if not output.max_abs_error:
        return 0.0
    return output.max_abs_error / output.tolerance if output.tolerance else float("inf")


def _fault(number: int, output: OutputCheck) -> Diagnostic:
    where = f" at {list(output.place)}" if output.place else ""
    text = f"output {number} ({output.type}) is off by {output.max_abs_error:.3g}{where}, allowed is {output.tolerance:.3g}"
    return Diagnostic("MG0605", text)
