"""Random PyTorch modules of common operations, compared with torch on one device and sharded over a mesh. Needs torch.

    python -m tests.frontend.pytorch.random_torch --count 300 [--seed 0]

A module is built in random steps. Each step appends a call on values that the module already has, and torch computes
its results at once. The module is then imported in one of the ways of docs/torch.md: directly, exported, decomposed by
torch, from a file, recorded by `make_fx` (also its gradients), or as a training step. Inputs are multiples of 1/4, so
that sums are exact, as in `tests/frontend/random_onnx.py`.
"""

from __future__ import annotations

import sys
import tempfile
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch.utils import _pytree as pytree

import meshgen as mg
from bench.torch_ops import difference_of_one
from meshgen.api import plan_module, read
from meshgen.calls.arrays import plain_array
from meshgen.calls.signature import Signature
from meshgen.errors import UsageError
from meshgen.frontend.specs import annotated
from meshgen.frontend.torch.training import TrainingStep
from meshgen.ir.graph import Module
from meshgen.mesh import Mesh, make_mesh
from meshgen.pipeline import Options, Timing
from tests.frontend.pytorch import (
    random_torch_layers,
    random_torch_moves,
    random_torch_places,
    random_torch_products,
    random_torch_steps,
)
from tests.frontend.pytorch.torch_maker import STEPS, RandomBuilder
from tests.frontend.pytorch.torch_ways import IMPORT_METHODS, ImportCase, results_of
from tests.frontend.random_models import CannotBuild, campaign

STEP_MODULES = (
    random_torch_layers,
    random_torch_moves,
    random_torch_places,
    random_torch_products,
    random_torch_steps,
)  # the import of these modules registers their steps
MESHES = ({"d": 2}, {"d": 2, "e": 2}, {"d": 1, "e": 2}, {"d": 1})
ROUNDING = 1e-4  # tolerance, relative to the largest element (chosen: several steps accumulate some roundings of f32)


def random_module(seed: int, steps: int = 6) -> RandomBuilder:
    """Return a random module of about `steps` steps. The first entry of its `kinds` is the way in which it will be
    imported.
    """
    builder = RandomBuilder(seed)
    for rank in (builder.integer(2, 4), builder.integer(1, 4)):
        builder.input(torch.from_numpy(builder.numbers(*(builder.integer(1, 6) for _ in range(rank)))))
    STEPS.take(builder, steps)
    builder.finish()
    builder.kinds.insert(0, builder.one_of([*IMPORT_METHODS]))
    return builder


def fault_of(builder: RandomBuilder) -> str:
    """Return a description of how the results of a module differ from torch's, or "" if they are equal.

    The module runs on a random mesh. If the results differ, it also runs on one device, to tell whether sharding is the
    cause.
    """
    mesh = make_mesh(builder.one_of(MESHES))
    rounding = max(ROUNDING, 8 * max(builder.rounding.values(), default=0.0))
    with tempfile.TemporaryDirectory() as folder:
        import_case = IMPORT_METHODS[builder.kinds[0]](builder, Path(folder))
        try:
            module, signature = read(import_case.program, args=import_case.args)
        except UsageError as error:
            if "cannot export" in str(error):
                raise CannotBuild(str(error)) from error
            raise
        specs = {value.name: _spec(builder, len(value.type.shape), mesh) for value in module.graph.inputs}
        split = annotated(replace(module, mesh=mesh), specs, None, signature)
        if text := _fault_on(split, signature, import_case, rounding):
            alone = _fault_on(module, signature, import_case, rounding)
            return f"on one device {alone}" if alone else f"on {mesh} with {specs} {text}"
    return ""


def _spec(builder: RandomBuilder, rank: int, mesh: Mesh) -> mg.P:
    """Return a random spec: each mesh axis splits one dim or none."""
    dims: list[tuple[str, ...]] = [()] * rank
    for axis in mesh.axes:
        if rank and builder.integer(0, 3):
            dims[builder.integer(0, rank - 1)] += (axis.name,)
    return mg.P(*(axes or None for axes in dims))


def _fault_on(module: Module, signature: Signature, import_case: ImportCase, rounding: float) -> str:
    executable = plan_module(module, Options("cpu"), Timing(), signature)
    result, state = results_of(executable(*deepcopy(import_case.call)), isinstance(import_case.program, TrainingStep))
    if missing := import_case.changed - {*state}:
        return f"{sorted(missing)} are not among what changes"
    known_state = {name: tensor for name, tensor in state.items() if name in import_case.state}
    return difference(
        (result, known_state), (import_case.expected, {name: import_case.state[name] for name in known_state}), rounding
    )


def difference(actual: Any, reference: Any, rounding: float = ROUNDING) -> str:
    """Return how results differ from torch's, or "" if they are equal. Structures, leaves that are not tensors, and
    numbers are compared.
    """
    leaves, actual_tree = pytree.tree_flatten(actual)
    expected_leaves, expected_tree = pytree.tree_flatten(reference)
    if actual_tree != expected_tree:
        return f"{actual_tree} in place of {expected_tree}"
    return "; ".join(
        f"result {index}: {text}"
        for index, (left, right) in enumerate(zip(leaves, expected_leaves, strict=True))
        if (text := _difference_of_leaf(left, right, rounding))
    )


def _difference_of_leaf(actual: Any, expected: Any, rounding: float) -> str:
    if not isinstance(expected, torch.Tensor):
        return "" if (type(actual), actual) == (type(expected), expected) else f"{actual!r} in place of {expected!r}"
    return difference_of_one(actual, plain_array(expected.detach().resolve_conj().resolve_neg()), rounding)


if __name__ == "__main__":
    sys.exit(campaign(__doc__, random_module, fault_of))
