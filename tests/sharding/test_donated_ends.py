"""Donated arguments have one sharding from step to step, chosen with the cost of both ends."""

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
    """The gradient x.T @ x is a partial sum over dp, which is cheapest to scatter."""
    m = 0.9 * m + x.T @ x
    return (x @ w).sum(), w - 0.1 * m, m


def propagated(**options: Any) -> Module:
    return lower(step, MESH, stage="propagate", args=ARGS, donate=["w", "m"], target="cpu", **options)


@pytest.mark.parametrize(
    "in_specs", [{"x": mg.P("dp")}, {"x": mg.P("dp"), "w": mg.P(None, "tp")}, {"x": mg.P("dp"), "m": mg.P(None, None)}]
)
def test_a_next_value_has_the_sharding_of_its_argument(in_specs: Any) -> None:
    module = propagated(in_specs=in_specs)
    assert module.donations == {0: 1, 1: 2}
    for given, result in module.donations.items():
        assert module.out_shardings[result or 0] == module.in_shardings[given]
    for number, name in enumerate(("w", "m")):
        if name in in_specs:
            assert module.in_shardings[number] == in_specs[name]


def test_an_annotated_next_value_decides_for_its_argument() -> None:
    module = propagated(in_specs={"x": mg.P("dp")}, out_specs={"result.1": mg.P("tp", None)})
    assert module.in_shardings[0] == module.out_shardings[1] == mg.P("tp", None)


def test_required_annotations_of_both_ends_are_kept() -> None:
    specs: Any = {"in_specs": {"w": mg.P("dp", None)}, "out_specs": {"result.1": mg.P(None, "dp")}}
    module = propagated(**specs)
    assert (module.in_shardings[0], module.out_shardings[1]) == (mg.P("dp", None), mg.P(None, "dp"))


def test_the_step_counts_the_reshard_of_a_next_value() -> None:
    """An argument that is whole on each device gets its gradient from all devices in the step itself."""
    specs = {"x": mg.P("dp"), "w": mg.P(None, None), "m": mg.P(None, None)}
    executable = plan(step, MESH, args=ARGS, in_specs=specs, donate=["w", "m"], target="cpu")
    assert not [each for each in executable.warnings if each.code == "MG0111"]
    assert executable.comms.ring_bytes >= 4 * SIZE * SIZE / 2  # a half is received from the other device at least


def test_a_constant_next_value_is_in_the_layout_of_its_argument() -> None:
    reset = lambda w, x: (mg.zeros((8, 8)), (w * x).sum())  # noqa: E731
    executable = plan(reset, MESH, args=["f32[8,8]"] * 2, in_specs={"w": mg.P("dp", "tp")}, donate={"w": 0}, target="cpu")  # fmt: skip
    assert executable.fused.out_shardings[0] == mg.P("dp", "tp")
