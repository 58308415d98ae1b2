"""Meshes with many axes: the number of candidate steps stays small, and plans stay correct."""

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

AXIS_COUNT, MOST = 16, 2000


def mesh_of(count: int) -> Mesh:
    return make_mesh({f"a{i}": 2 for i in range(count)})


def problem_of(target: Sharding) -> Problem:
    mesh = mesh_of(AXIS_COUNT)
    return Problem(TensorType((1 << 8, 1 << 8), "f32"), target, mesh, mesh.names)


def test_predecessors_do_not_enumerate_axis_orders() -> None:
    candidates = list(itertools.islice(predecessors(problem_of(P(None, None))), MOST))
    assert AXIS_COUNT < len(candidates) < MOST


@pytest.mark.parametrize(
    "target", [P(None, None), P("a3", ("a7", "a1")), P(None, None, partial={"a0": "max"})], ids=str
)
def test_reductions_do_not_enumerate_axis_subsets(target: Sharding) -> None:
    problem = problem_of(target)
    state = P(None, None, partial=problem.axes)
    candidates = list(itertools.islice(moves(problem, state), MOST))
    assert AXIS_COUNT < len(candidates) < MOST
    for axes in filter(None, (problem.axes, *target.dims)):
        ordered = tuple(sorted(axes, key=problem.mesh.order))
        assert any(move.op == "all_reduce" and move.attrs["axes"] == ordered for move in candidates)


def test_summands_move_to_equally_many_devices() -> None:
    names = [f"a{i}" for i in range(AXIS_COUNT)]
    problem = problem_of(P(None, None, partial=names[1:]))
    state = P(None, None, partial=names[:3])
    assert moved_summands(problem, state) == tuple((axis, "sum") for axis in names[1:4])


def test_summands_move_to_most_axes_of_equal_size() -> None:
    mesh = make_mesh({"x": 4, "y": 4, "u": 2, "v": 2, "w": 2})
    problem = Problem(TensorType((8,), "f32"), P(None, partial=("y", "u", "v", "w")), mesh, mesh.names)
    assert moved_summands(problem, P(None, partial="x")) == (("u", "sum"), ("v", "sum"))


@pytest.mark.parametrize("seed", range(4))
def test_plans_over_seven_axes_are_correct(seed: int) -> None:
    rng, mesh = np.random.default_rng([11, seed]), mesh_of(7)
    x = rng.integers(-99, 99, (8, 20), dtype=np.int32)
    source, target = (random_sharding(rng, 2, mesh, partial=True) for _ in range(2))
    run_plan(plan_reshard(TensorType(x.shape, "i32"), source, target, mesh), x, mesh, rng)


def test_matmul_on_million_devices_is_planned() -> None:
    """One end of each reshard uses few axes, so tables cover only the devices along those and a few more axes."""
    mesh = mesh_of(20)
    specs = {"in_specs": {"a": P("a0", "a1"), "b": P("a2", "a3")}, "out_specs": {"result": P("a4", "a5")}}
    module, _ = api.read(lambda a, b: mg.tanh(a @ b), mesh, args=["f32[64,64]", "f32[64,64]"], **specs)
    exe = api.plan_module(module, Options("cpu"), Timing())
    assert exe.stages["partition"].out_shardings == [P("a4", "a5")]


def test_reshard_over_all_fourteen_axes_is_planned() -> None:
    mesh = mesh_of(14)
    left, right = mesh.names[:7], mesh.names[7:]
    plan = plan_reshard(TensorType((64, 96), "f32"), P(left, right), fit(P(right[::-1], left), 2), mesh)
    assert plan.steps[-1].sharding == P(right[::-1], left)
