"""Meshes of many axes: what a search tries grows slowly with them, and plans stay right."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import meshgen as mg
from meshgen import api
from meshgen.ir.graph import TensorType
from meshgen.mesh import Mesh, make_mesh
from meshgen.pipeline import Options, Timing
from meshgen.sharding.reshard.moves import moved_summands, moves, predecessors
from meshgen.sharding.reshard.plan import plan_reshard
from meshgen.sharding.reshard.problem import Problem
from meshgen.spec import P, Sharding, fit
from tests.sharding.reshard.reshard_oracle import random_sharding, run_plan

MANY, MOST = 16, 2000


def mesh_of(count: int) -> Mesh:
    return make_mesh({f"a{i}": 2 for i in range(count)})


def problem_of(target: Sharding) -> Problem:
    mesh = mesh_of(MANY)
    return Problem(TensorType((1 << 8, 1 << 8), "f32"), target, mesh, mesh.names)


def test_not_all_orders_of_free_axes_are_joined() -> None:
    found = list(itertools.islice(predecessors(problem_of(P(None, None))), MOST))
    assert MANY < len(found) < MOST


@pytest.mark.parametrize(
    "target", [P(None, None), P("a3", ("a7", "a1")), P(None, None, partial={"a0": "max"})], ids=str
)
def test_not_all_subsets_of_summands_are_reduced(target: Sharding) -> None:
    problem = problem_of(target)
    state = P(None, None, partial=problem.axes)
    found = list(itertools.islice(moves(problem, state), MOST))
    assert MANY < len(found) < MOST
    for axes in filter(None, (problem.axes, *target.dims)):
        ordered = tuple(sorted(axes, key=problem.mesh.order))
        assert any(move.op == "all_reduce" and move.attrs["axes"] == ordered for move in found)


def test_summands_find_as_many_devices_among_many_axes() -> None:
    names = [f"a{i}" for i in range(MANY)]
    problem = problem_of(P(None, None, partial=names[1:]))
    state = P(None, None, partial=names[:3])
    assert moved_summands(problem, state) == tuple((axis, "sum") for axis in names[1:4])


def test_of_equally_many_devices_the_most_axes_are_taken() -> None:
    mesh = make_mesh({"x": 4, "y": 4, "u": 2, "v": 2, "w": 2})
    problem = Problem(TensorType((8,), "f32"), P(None, partial=("y", "u", "v", "w")), mesh, mesh.names)
    assert moved_summands(problem, P(None, partial="x")) == (("u", "sum"), ("v", "sum"))


@pytest.mark.parametrize("seed", range(4))
def test_plans_over_seven_axes_are_right(seed: int) -> None:
    rng, mesh = np.random.default_rng([11, seed]), mesh_of(7)
    x = rng.integers(-99, 99, (8, 20), dtype=np.int32)
    source, target = (random_sharding(rng, 2, mesh, partial=True) for _ in range(2))
    run_plan(plan_reshard(TensorType(x.shape, "i32"), source, target, mesh), x, mesh, rng)


def test_a_matmul_on_a_million_devices_is_planned() -> None:
    """One end of each reshard uses few of the axes; tables are over the devices along a few more."""
    mesh = mesh_of(20)
    specs = {"in_specs": {"a": P("a0", "a1"), "b": P("a2", "a3")}, "out_specs": {"result": P("a4", "a5")}}
    module, _ = api.read(lambda a, b: mg.tanh(a @ b), mesh, args=["f32[64,64]", "f32[64,64]"], **specs)
    exe = api.plan_module(module, Options("cpu"), Timing())
    assert exe.stages["partition"].out_shardings == [P("a4", "a5")]


def test_all_axes_in_use_on_many_devices() -> None:
    mesh = mesh_of(14)
    left, right = mesh.names[:7], mesh.names[7:]
    plan = plan_reshard(TensorType((64, 96), "f32"), P(left, right), fit(P(right[::-1], left), 2), mesh)
    assert plan.steps[-1].sharding == P(right[::-1], left)
