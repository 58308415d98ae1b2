"""Random PyTorch modules of common operations, compared with torch on one device and sharded over a mesh. Needs torch.

    python -m tests.frontend.pytorch.random_torch --count 300 [--seed 0]

Each kind of step appends a call on values that the module already has, and torch computes its results at once. The
module is then imported
in one of the ways of docs/torch.md: directly, exported, decomposed by torch, from a file, recorded by `make_fx` (also
its gradients),
or as a training step. Inputs are multiples of 1/4, as in `tests/frontend/random_onnx.py`, for the same reason.
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
from tests.frontend.pytorch.torch_maker import STEPS, Maker
from tests.frontend.pytorch.torch_ways import WAYS, Entered, results_of
from tests.frontend.random_models import CannotMake, campaign

ENTERED = (
    random_torch_layers,
    random_torch_moves,
    random_torch_places,
    random_torch_products,
    random_torch_steps,
)  # importing these modules registers their steps
MESHES = ({"d": 2}, {"d": 2, "e": 2}, {"d": 1, "e": 2}, {"d": 1})
ROUNDING = 1e-4  # of the largest element, in f32


def made(seed: int, steps: int = 6) -> Maker:
    """Return a random module of about `steps` steps. The first entry of `kinds` is the way in which it is imported."""
    maker = Maker(seed)
    for rank in (maker.integer(2, 4), maker.integer(1, 4)):
        maker.input(torch.from_numpy(maker.numbers(*(maker.integer(1, 6) for _ in range(rank)))))
    STEPS.take(maker, steps)
    maker.finish()
    maker.kinds.insert(0, maker.one_of([*WAYS]))
    return maker


def fault_of(maker: Maker) -> str:
    """Return the mismatch of a module's results on a random mesh or on one device, or an empty text."""
    mesh = make_mesh(maker.one_of(MESHES))
    rounding = max(ROUNDING, 8 * max(maker.rounding.values(), default=0.0))
    with tempfile.TemporaryDirectory() as folder:
        entered = WAYS[maker.kinds[0]](maker, Path(folder))
        try:
            module, signature = read(entered.program, args=entered.args)
        except UsageError as error:
            if "cannot export" in str(error):
                raise CannotMake(str(error)) from error
            raise
        specs = {value.name: _spec(maker, len(value.type.shape), mesh) for value in module.graph.inputs}
        split = annotated(replace(module, mesh=mesh), specs, None, signature)
        if text := _fault_on(split, signature, entered, rounding):
            alone = _fault_on(module, signature, entered, rounding)
            return f"on one device {alone}" if alone else f"on {mesh} with {specs} {text}"
    return ""


def _spec(maker: Maker, rank: int, mesh: Mesh) -> mg.P:
    """Shard a random dim over each mesh axis, or none."""
    dims: list[tuple[str, ...]] = [()] * rank
    for axis in mesh.axes:
        if rank and maker.integer(0, 3):
            dims[maker.integer(0, rank - 1)] += (axis.name,)
    return mg.P(*(axes or None for axes in dims))


def _fault_on(module: Module, signature: Signature, entered: Entered, rounding: float) -> str:
    executable = plan_module(module, Options("cpu"), Timing(), signature)
    result, state = results_of(executable(*deepcopy(entered.call)), isinstance(entered.program, TrainingStep))
    if missing := entered.changed - {*state}:
        return f"{sorted(missing)} are not among what changes"
    known_state = {name: tensor for name, tensor in state.items() if name in entered.state}
    return difference(
        (result, known_state), (entered.wanted, {name: entered.state[name] for name in known_state}), rounding
    )


def difference(actual: Any, reference: Any, rounding: float = ROUNDING) -> str:
    """Return how results differ from torch's: in structure, in leaves that are no tensors, or in numbers. Empty if they
    are equal.
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
    sys.exit(campaign(__doc__, made, fault_of))
