"""The oracle, which checks law 1: all simulated ranks together must compute the result of the program on one device."""

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
from meshgen.ir.multi_mesh import whole_graph
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
    """The result of comparing one output.

    Attributes:
        max_abs_error, tolerance: error and tolerance of the element with the largest ratio of both.
        place: index of that element; empty for an output without elements.
        unbounded: number of elements that were not compared, because rounding alone may change them arbitrarily (for
            example, a comparison of nearly equal sums).
    """

    type: TensorType
    ok: bool
    max_abs_error: float
    tolerance: float
    place: tuple[int, ...] = ()
    unbounded: int = 0

    def record(self) -> dict[str, Any]:
        """Return the result for `--json`, with infinities replaced by the largest finite number."""
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
    """The verdict of the oracle. The numbers are for the output with the largest error; `faults` describe the
    differences.
    """

    ok: bool
    max_abs_error: float
    tolerance: float
    outputs: list[OutputCheck]
    faults: tuple[Diagnostic, ...] = ()

    def record(self) -> dict[str, Any]:
        """Return the result for `--json`."""
        return {
            "ok": self.ok,
            "max_abs_error": min(self.max_abs_error, _GREATEST),
            "tolerance": min(self.tolerance, _GREATEST),
            "outputs": [output.record() for output in self.outputs],
        }


def check(module: Module, *, pipeline: Pipeline, args: Sequence[Array] | None = None, seed: int = 0,
          runs: Sequence[Run] = ()) -> CheckResult:  # fmt: skip
    """Check that the output of `pipeline`, which ends at stage partition or fuse, computes the same as the program.

    Args:
        module: the program at any stage up to partition. Up to stage optimize, the reference is the result of the
            program on one device, because collectives only move values. At stage partition, the reference is the result
            of the program itself on all ranks.
        pipeline: the passes under test.
        args: global arguments. The default is seeded random arguments without zeros.
        runs: functions that run the output of the pipeline in further ways; their results must be the same.
    Raises:
        MeshgenError: the pipeline rejects the program, or the arguments do not match it.
    """
    local = pipeline(module)
    args = check_arguments(local, random_arguments(module, seed) if args is None else args)
    expected, bounds = (
        _local_meaning(module, args)
        if module.stage == "partition"
        else meaning(whole(module), args, module.mesh, *module.meshes)
    )
    faults: list[Diagnostic] = []
    try:
        simulated = simulate(local, args, tolerance=bounds)
    # Replicas of a value differ: report it, and continue with one replica to report the errors of all outputs.
    except NumbersDiffer as error:
        faults += error.diagnostics
        simulated = simulate(local, args, tolerance=None)
    types = local.out_types
    results = [simulated, *(run(local, args) for run in runs)]
    compared = [
        [compare(*check_) for check_ in zip(types, expected, actual, bounds, strict=True)] for actual in results
    ]
    outputs = [max(ways, key=lambda check_: (not check_.ok, _excess(check_))) for ways in zip(*compared, strict=True)]
    faults += [_output_fault(index, output) for index, output in enumerate(outputs) if not output.ok]
    worst = max(outputs, key=_excess, default=OutputCheck(TensorType((), "f32"), True, 0.0, 0.0))
    return CheckResult(not faults, worst.max_abs_error, worst.tolerance, outputs, tuple(faults))


def whole(module: Module) -> Graph:
    """Return the program as one module. The parts of a program on several meshes are joined."""
    if not module.parts:
        return module.graph
    return whole_graph(replace(module, parts=[replace(p, graph=on_one_device(p.graph, p.mesh)) for p in module.parts]))


def meaning(graph: Graph, args: Sequence[Array], *meshes: Mesh, tf32: bool = False) -> tuple[list[Array], list[Array]]:
    """Return the outputs on one device and their error bounds. `tf32` selects the bounds of GPUs, as in `error_bound`.

    Collectives between shardings do not change the global value, so they are removed.
    """
    replacements: dict[Value, Value] = {}
    single_device = _without_collectives(on_one_device(graph, *meshes), replacements)
    return evaluate(single_device, args), error_bound(single_device, args, tf32=tf32)


def _without_collectives(graph: Graph, replacements: dict[Value, Value]) -> Graph:
    nodes: list[Node] = []
    for node in graph.nodes:
        operands = [replacements.get(v, v) for v in node.operands]
        if node.op in _RESHARDS:
            replacements[node.result] = operands[0]
        else:
            bodies = tuple(_without_collectives(body, replacements) for body in node.regions)
            nodes.append(replace(node, operands=operands, regions=bodies))
    return Graph(graph.name, graph.inputs, nodes, [replacements.get(v, v) for v in graph.outputs])


def _local_meaning(module: Module, args: Sequence[Array]) -> tuple[list[Array], list[Array]]:
    """Return the outputs of all ranks of the unoptimized per-device program, and their error bounds.

    Passes may only change where and in which order values of devices are summed. Without a reduction, results are
    therefore bitwise equal. Otherwise each op and device may add a rounding error of one unit roundoff of the largest
    summed or returned value. The bound ignores that later functions may magnify an error.
    """
    nodes = [node for node in module.graph.nodes if node.op in _REDUCTIONS]
    summed = [*(node.operands[0] for node in nodes), *module.graph.outputs]
    shards = simulate_shards(replace(module, graph=replace(module.graph, outputs=summed)), args)
    floats = [
        (v.type.dtype, value_shards) for v, value_shards in zip(summed, shards, strict=True) if is_inexact(v.type.dtype)
    ]
    unit = max((float(ml_dtypes.finfo(DTYPES[dtype]).eps) for dtype, _ in floats), default=0.0)
    arrays = (np.abs(array.astype(np.float64)) for _, value_shards in floats for array in value_shards)
    largest = max((float(np.max(a, initial=0.0, where=np.isfinite(a))) for a in arrays), default=0.0)
    allowed = unit * largest * module.mesh.size * len(module.graph.nodes) if nodes else 0.0
    expected = simulate(module, args, tolerance=None)
    return expected, [np.full(w.shape, allowed if is_inexact(dtype_name(w.dtype)) else 0.0) for w in expected]


def compare(type_: TensorType, expected: Array, actual: Array, bound: Array | float) -> OutputCheck:
    """Compare one output with the expected one. Elements must be equal within `bound`, and infinities and NaNs must be
    at the same positions.
    """
    if actual.shape != expected.shape or actual.dtype != expected.dtype:
        return OutputCheck(type_, False, float("inf"), 0.0)
    if not expected.size:
        return OutputCheck(type_, True, 0.0, 0.0)
    if is_complex(type_.dtype):  # compare real and imaginary part separately: an infinite part must not hide the other
        parts = TensorType((*type_.shape, 2), real_dtype(type_.dtype))
        left, right = (np.array(x)[..., None].view(parts.numpy_dtype) for x in (expected, actual))
        wide = np.broadcast_to(np.asarray(bound, np.float64), expected.shape)[..., None]
        return replace(compare(parts, left, right, wide), type=type_)
    error = _errors(expected, actual, is_inexact(type_.dtype))
    allowed = np.broadcast_to(np.asarray(bound, np.float64), error.shape)
    with np.errstate(all="ignore"):
        excess = np.where(error == 0, np.where(np.isinf(allowed), -1.0, 0.0), error / allowed)
    excess = np.where(np.isnan(excess), 0.0, excess)  # inf / inf: the element cannot be compared
    worst = np.unravel_index(int(np.argmax(excess)), error.shape)
    unbounded, ok = int(np.count_nonzero(np.isinf(allowed))), bool(np.all((error == 0) | (error <= allowed)))
    index = tuple(int(i) for i in worst)
    return OutputCheck(type_, ok, float(error[worst]), float(allowed[worst]), index, unbounded)


def _errors(expected: Array, actual: Array, floats: bool) -> Array:
    """Return absolute differences in float64: 0 for equal elements, at least 1 for different integers."""
    left, right = expected.astype(np.float64), actual.astype(np.float64)
    is_equal = expected == actual
    if floats:
        is_equal |= np.isnan(left) & np.isnan(right)
    with np.errstate(all="ignore"):
        distance = np.abs(left - right)
    distance = np.where(np.isnan(distance), np.inf, distance) if floats else np.maximum(distance, 1.0)
    return np.where(is_equal, 0.0, distance)


def _excess(output: OutputCheck) -> float:
    """Return the error of an output as a multiple of its tolerance."""
    if not output.max_abs_error:
        return 0.0
    return output.max_abs_error / output.tolerance if output.tolerance else float("inf")


def _output_fault(index: int, output: OutputCheck) -> Diagnostic:
    position_text = f" at {list(output.place)}" if output.place else ""
    text = f"output {index} ({output.type}) differs by {output.max_abs_error:.3g}{position_text}, allowed {output.tolerance:.3g}"
    return Diagnostic("MG0605", text)
