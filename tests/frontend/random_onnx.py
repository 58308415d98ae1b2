"""Random ONNX models of common operators, compared with the `onnx` package's reference, on one device and sharded over
two.

    python -m tests.frontend.random_onnx --count 300 [--seed 0]

A model is built in random steps. Each step appends nodes that read values of the model. The reference computes their
results at once, so that the next step knows their shapes. Discontinuous operators (comparisons, roundings, argmax) read
only exact values: inputs are multiples of 1/4, and data movement and small sums stay exact.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from meshgen.api import read
from meshgen.frontend.specs import annotated
from meshgen.ir.graph import Module
from meshgen.mesh import make_mesh
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.pipeline import Options, Timing, run_stages
from meshgen.testing.oracle import check
from tests.frontend import random_onnx_moves, random_onnx_steps
from tests.frontend.onnx_maker import STEPS, RandomBuilder
from tests.frontend.random_models import campaign

Array = np.ndarray[Any, Any]
STEP_MODULES = (random_onnx_moves, random_onnx_steps)  # the import of these modules registers their steps


def random_model(seed: int, steps: int = 8) -> RandomBuilder:
    """Return a random model of about `steps` steps."""
    builder = RandomBuilder(seed)
    ranks = (builder.integer(2, 4), builder.integer(1, 4))
    for rank in ranks:
        builder.input(builder.numbers(*(builder.integer(1, 6) for _ in range(rank))))
    STEPS.take(builder, steps)
    return builder


def fault_of(builder: RandomBuilder) -> str:
    """Return a description of how the results of a model differ from the reference, or "" if they are equal. The model
    runs on one device, and on two devices that split a dim of its first input.
    """
    model, names = builder.model()
    module, signature = read(model)
    values = builder.inputs | {name: np.asarray(array) for name, array in signature.weights.items()}
    arguments = [values[value.name] for value in module.graph.inputs]
    for name, actual in zip(names, evaluate(module.graph, arguments), strict=True):
        if text := difference(actual, builder.values[name]):
            return f"{name}: {text}"
    dims = [dim for dim, size in enumerate(builder.inputs["x0"].shape) if size > 1]
    if not dims or "x0" not in {value.name for value in module.graph.inputs}:
        return ""
    spec = ["_"] * dims[0] + ["d"]
    split = Module(make_mesh({"d": 2}), module.graph, name="split", in_annotations=list(module.in_annotations), out_annotations=list(module.out_annotations))  # fmt: skip
    result = check(annotated(split, {"x0": ",".join(spec)}, None), pipeline=fused, args=arguments)
    return "" if result.ok else f"split over dim {dims[0]}: {[str(fault) for fault in result.faults]}"


def fused(module: Module) -> Module:
    return run_stages(module, Options("cpu"), Timing(), "fuse")["fuse"]


def difference(actual: Array, expected: Array) -> str:
    """Return a description of how `actual` differs from `expected`, or "" if they are equal. f32 must be within 1e-4 of
    the largest element.
    """
    if (actual.shape, actual.dtype) != (expected.shape, expected.dtype):
        return f"{actual.dtype}{list(actual.shape)} in place of {expected.dtype}{list(expected.shape)}"
    if actual.dtype != np.float32:
        return "" if np.array_equal(actual, expected) else "whole numbers differ"
    largest = max(1.0, float(np.abs(expected).max(initial=0)))
    max_error = float(np.abs(actual - expected).max(initial=0))
    return "" if max_error <= 1e-4 * largest else f"differs by {max_error:.3g} of {largest:.3g}"


if __name__ == "__main__":
    sys.exit(campaign(__doc__, random_model, fault_of))
