"""Law 1, checked: all simulated ranks together compute what the program computes on one device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np

from meshgen.errors import Diagnostic, NumbersDiffer
from meshgen.ir.graph import (
    DTYPES,
    Graph,
    Module,
    Node,
    TensorType,
    Value,
    dtype_name,
    is_complex,
    is_inexact,
    real_dtype,
)
from meshgen.ir.parts import whole_graph
from meshgen.mesh import Mesh
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.runtime.simulate import check_arguments, simulate, simulate_shards
from meshgen.testing.lockstep import on_one_device
from meshgen.testing.random_graphs import random_arguments

Array = np.ndarray[Any, Any]
Pipeline = Callable[[Module], Module]
Run = Callable[[Module, Sequence[Array]], Sequence[Array]]
_RESHARDS = ("all_gather", "all_slice", "all_to_all", "all_reduce", "reduce_scatter", "to_partial", "permute", "retile",
             "update_halo")  # fmt: skip
_REDUCTIONS = ("all_reduce", "reduce_scatter", "reduce_to")
_GREATEST = float(np.finfo(np.float64).max)


@dataclass(frozen=True)
class OutputCheck:
    """One output: the largest error in units of what is allowed there decides.

    `max_abs_error` and `tolerance` belong to the worst place, which is `place`; an output without elements has
    none. `unbounded` places were not compared: there rounding alone may decide anything (as in a comparison of
    nearly equal sums).
    """

    type: TensorType
    ok: bool
    max_abs_error: float
    tolerance: float
    place: tuple[int, ...] = ()
    unbounded: int = 0

    def record(self) -> dict[str, Any]:
        """For `--json`, which has no infinities."""
        return {
            "shape": list(self.type.shape),
            "dtype": self.type.dtype,
            "ok": self.ok,
            "max_abs_error": min(self.max_abs_error, _GREATEST),
            "tolerance": min(self.tolerance, _GREATEST),
            "unbounded": self.unbounded,
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
        return {
            "ok": self.ok,
            "max_abs_error": min(self.max_abs_error, _GREATEST),
            "tolerance": min(self.tolerance, _GREATEST),
            "outputs": [output.record() for output in self.outputs],
        }


def check(module: Module, *, pipeline: Pipeline, args: Sequence[Array] | None = None, seed: int = 0,
          runs: Sequence[Run] = ()) -> CheckResult:  # fmt: skip
    """Compare a program with the output of `pipeline` (stage partition or fuse).

    Args:
        module: the program as it was entered, at any stage up to partition. Up to optimize it means what it computes
            on one device (collectives only move values); at stage partition its own results on all ranks.
        pipeline: the passes under test, from that stage to partition or fuse.
        args: global arguments; without them, seeded random ones without zeros.
        runs: further ways to run what the pipeline made, held to the same results.
    Raises:
        MeshgenError: the pipeline refuses the program, or the arguments do not fit.
    """
    local = pipeline(module)
    args = check_arguments(local, random_arguments(module, seed) if args is None else args)
    wanted, bounds = (
        _local_meaning(module, args)
        if module.stage == "partition"
        else meaning(whole(module), args, module.mesh, *module.meshes)
    )
    faults: list[Diagnostic] = []
    try:
        found = simulate(local, args, tolerance=bounds)
    except NumbersDiffer as error:  # replicas: go on with one of them, to say how far all outputs are off
        faults += error.diagnostics
        found = simulate(local, args, tolerance=None)
    types = local.out_types
    results = [found, *(run(local, args) for run in runs)]
    compared = [[compare(*each) for each in zip(types, wanted, got, bounds, strict=True)] for got in results]
    outputs = [max(ways, key=lambda each: (not each.ok, _excess(each))) for ways in zip(*compared, strict=True)]
    faults += [_output_fault(number, output) for number, output in enumerate(outputs) if not output.ok]
    worst = max(outputs, key=_excess, default=OutputCheck(TensorType((), "f32"), True, 0.0, 0.0))
    return CheckResult(not faults, worst.max_abs_error, worst.tolerance, outputs, tuple(faults))


def whole(module: Module) -> Graph:
    """The one graph of a program, on several meshes too."""
    if not module.parts:
        return module.graph
    return whole_graph(replace(module, parts=[replace(p, graph=on_one_device(p.graph, p.mesh)) for p in module.parts]))


def meaning(graph: Graph, args: Sequence[Array], *meshes: Mesh, tf32: bool = False) -> tuple[list[Array], list[Array]]:
    """Outputs on one device and their bounds; `tf32`: those of GPUs, as of `error_bound`.

    A collective between shardings leaves the global value as it is.
    """
    put: dict[Value, Value] = {}
    whole = _without_collectives(on_one_device(graph, *meshes), put)
    return evaluate(whole, args), error_bound(whole, args, tf32=tf32)


def _without_collectives(graph: Graph, put: dict[Value, Value]) -> Graph:
    nodes: list[Node] = []
    for node in graph.nodes:
        operands = [put.get(v, v) for v in node.operands]
        if node.op in _RESHARDS:
            put[node.result] = operands[0]
        else:
            bodies = tuple(_without_collectives(body, put) for body in node.regions)
            nodes.append(replace(node, operands=operands, regions=bodies))
    return Graph(graph.name, graph.inputs, nodes, [put.get(v, v) for v in graph.outputs])


def _local_meaning(module: Module, args: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Outputs of all ranks of the unoptimised program.

    Passes may only change where and in which order devices' values are summed: where nothing is, results are the
    same bits. Else every op and device may round once more, by a unit roundoff of the largest value that is summed
    or delivered. That later functions may magnify an error is not counted.
    """
    nodes = [node for node in module.graph.nodes if node.op in _REDUCTIONS]
    summed = [*(node.operands[0] for node in nodes), *module.graph.outputs]
    shards = simulate_shards(replace(module, graph=replace(module.graph, outputs=summed)), args)
    floats = [(v.type.dtype, each) for v, each in zip(summed, shards, strict=True) if is_inexact(v.type.dtype)]
    unit = max((float(ml_dtypes.finfo(DTYPES[dtype]).eps) for dtype, _ in floats), default=0.0)
    arrays = (np.abs(array.astype(np.float64)) for _, each in floats for array in each)
    largest = max((float(np.max(a, initial=0.0, where=np.isfinite(a))) for a in arrays), default=0.0)
    allowed = unit * largest * module.mesh.size * len(module.graph.nodes) if nodes else 0.0
    wanted = simulate(module, args, tolerance=None)
    return wanted, [np.full(w.shape, allowed if is_inexact(dtype_name(w.dtype)) else 0.0) for w in wanted]


def compare(type_: TensorType, wanted: Array, found: Array, bound: Array | float) -> OutputCheck:
    """One output against its reference: within `bound` place by place; infinities and NaNs at the same places."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return OutputCheck(type_, False, float("inf"), 0.0)
    if not wanted.size:
        return OutputCheck(type_, True, 0.0, 0.0)
    if is_complex(type_.dtype):  # part by part: an infinite one says nothing of the other
        parts = TensorType((*type_.shape, 2), real_dtype(type_.dtype))
        left, right = (np.array(x)[..., None].view(parts.numpy_dtype) for x in (wanted, found))
        wide = np.broadcast_to(np.asarray(bound, np.float64), wanted.shape)[..., None]
        return replace(compare(parts, left, right, wide), type=type_)
    error = _errors(wanted, found, is_inexact(type_.dtype))
    allowed = np.broadcast_to(np.asarray(bound, np.float64), error.shape)
    with np.errstate(all="ignore"):
        excess = np.where(error == 0, np.where(np.isinf(allowed), -1.0, 0.0), error / allowed)
    excess = np.where(np.isnan(excess), 0.0, excess)  # inf / inf: nothing is known of the place
    worst = np.unravel_index(int(np.argmax(excess)), error.shape)
    unbounded, ok = int(np.count_nonzero(np.isinf(allowed))), bool(np.all((error == 0) | (error <= allowed)))
    place = tuple(int(i) for i in worst)
    return OutputCheck(type_, ok, float(error[worst]), float(allowed[worst]), place, unbounded)


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


def _output_fault(number: int, output: OutputCheck) -> Diagnostic:
    where = f" at {list(output.place)}" if output.place else ""
    text = (
        f"output {number} ({output.type}) differs by {output.max_abs_error:.3g}{where}, allowed {output.tolerance:.3g}"
    )
    return Diagnostic("MG0605", text)
