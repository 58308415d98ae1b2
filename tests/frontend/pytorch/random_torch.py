"""Random PyTorch modules of common operations, against torch itself, on one device and split over a mesh. Needs torch.

    python -m tests.frontend.pytorch.random_torch --count 300 [--seed 0]

Each kind of step takes values that the module has already, and appends a call, whose results torch computes at once. A module is then entered
in one of the ways of docs/torch.md: as it is, exported, with torch's decompositions, from a file, as `make_fx` records it or its gradients,
or as a training step. Inputs are multiples of 1/4, as in `tests/frontend/random_onnx.py`, and for the same reason.
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
)  # their steps are in the table once they are imported
MESHES = ({"d": 2}, {"d": 2, "e": 2}, {"d": 1, "e": 2}, {"d": 1})
ROUNDING = 1e-4  # of the largest element, of f32


def made(seed: int, steps: int = 6) -> Maker:
    """A random module of about so many steps; the way in which it is entered is its first kind of step."""
    maker = Maker(seed)
    for rank in (maker.integer(2, 4), maker.integer(1, 4)):
        maker.input(torch.from_numpy(maker.numbers(*(maker.integer(1, 6) for _ in range(rank)))))
    STEPS.take(maker, steps)
    maker.finish()
    maker.kinds.insert(0, maker.one_of([*WAYS]))
    return maker


def fault_of(maker: Maker) -> str:
    """What is wrong with the results of a module on a random mesh, or already on one device. Empty if nothing is."""
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
    """Each axis of the mesh splits a random dim, or none."""
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
    known = {name: each for name, each in state.items() if name in entered.state}
    return difference((result, known), (entered.wanted, {name: entered.state[name] for name in known}), rounding)


def difference(found: Any, wanted: Any, rounding: float = ROUNDING) -> str:
    """How results differ from torch's: their structure, what is no tensor, or numbers."""
    leaves, structure = pytree.tree_flatten(found)
    expected, other = pytree.tree_flatten(wanted)
    if structure != other:
        return f"{structure} in place of {other}"
    return "; ".join(
        f"result {number}: {text}"
        for number, (left, right) in enumerate(zip(leaves, expected, strict=True))
        if (text := _difference_of_leaf(left, right, rounding))
    )


def _difference_of_leaf(found: Any, wanted: Any, rounding: float) -> str:
    if not isinstance(wanted, torch.Tensor):
        return "" if (type(found), found) == (type(wanted), wanted) else f"{found!r} in place of {wanted!r}"
    return difference_of_one(found, plain_array(wanted.detach().resolve_conj().resolve_neg()), rounding)


if __name__ == "__main__":
    sys.exit(campaign(__doc__, made, fault_of))
