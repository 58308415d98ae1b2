"""Donated arguments keep one sharding from step to step. Its choice includes the costs of both argument and result."""

from __future__ import annotations

from typing import Any

import pytest

import meshgen as mg
from meshgen.api import lower, plan
from meshgen.ir.graph import Module

MESH = {"dp": 2, "tp": 4}
SIZE = 4096
ARGS = [f"f32[{SIZE},{SIZE}]", f"f32[{SIZE},{SIZE}]", f"f32[{SIZE},{SIZE}]"]


def step(w: Any, m: Any, x: Any) -> Any:
    """Return a step whose gradient x.T @ x is a partial sum over dp, which is cheapest to reduce-scatter."""
    m = 0.9 * m + x.T @ x
    return (x @ w).sum(), w - 0.1 * m, m


def propagated(**options: Any) -> Module:
    return lower(step, MESH, stage="propagate", args=ARGS, donate=["w", "m"], target="cpu", **options)


@pytest.mark.parametrize(
    "in_specs", [{"x": mg.P("dp")}, {"x": mg.P("dp"), "w": mg.P(None, "tp")}, {"x": mg.P("dp"), "m": mg.P(None, None)}]
)
def test_donated_result_has_sharding_of_argument(in_specs: Any) -> None:
    module = propagated(in_specs=in_specs)
    assert module.donations == {0: 1, 1: 2}
    for argument, result in module.donations.items():
        assert module.out_shardings[result or 0] == module.in_shardings[argument]
    for index, name in enumerate(("w", "m")):
        if name in in_specs:
            assert module.in_shardings[index] == in_specs[name]


def test_annotation_of_donated_result_determines_argument() -> None:
    module = propagated(in_specs={"x": mg.P("dp")}, out_specs={"result.1": mg.P("tp", None)})
    assert module.in_shardings[0] == module.out_shardings[1] == mg.P("tp", None)


def test_required_annotations_of_donated_pair_are_kept() -> None:
    specs: Any = {"in_specs": {"w": mg.P("dp", None)}, "out_specs": {"result.1": mg.P(None, "dp")}}
    module = propagated(**specs)
    assert (module.in_shardings[0], module.out_shardings[1]) == (mg.P("dp", None), mg.P(None, "dp"))


def test_step_includes_reshard_of_donated_result() -> None:
    """Check replicated weights: the step reduces their gradients over all devices, since donated results stay
    replicated.
    """
    specs = {"x": mg.P("dp"), "w": mg.P(None, None), "m": mg.P(None, None)}
    executable = plan(step, MESH, args=ARGS, in_specs=specs, donate=["w", "m"], target="cpu")
    assert not [warning for warning in executable.warnings if warning.code == "MG0111"]
    # Each device receives at least half of the gradient from the other device.
    assert executable.comms.ring_bytes >= 4 * SIZE * SIZE / 2


def test_constant_donated_result_has_sharding_of_argument() -> None:
    reset = lambda w, x: (mg.zeros((8, 8)), (w * x).sum())  # noqa: E731
    executable = plan(reset, MESH, args=["f32[8,8]"] * 2, in_specs={"w": mg.P("dp", "tp")}, donate={"w": 0}, target="cpu")  # fmt: skip
    assert executable.fused.out_shardings[0] == mg.P("dp", "tp")
