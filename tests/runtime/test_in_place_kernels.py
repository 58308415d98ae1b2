"""Tests of the operands that a kernel result may alias, which must be element-wise operands."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from meshgen.codegen.fuse import fuse
from meshgen.codegen.packaging.package import write_module
from meshgen.codegen.scheduling.schedule import schedule
from meshgen.errors import ScheduleError
from meshgen.ir.graph import Graph, Module, Value
from meshgen.mesh import make_mesh
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.runtime.in_place import overwrites
from meshgen.runtime.loading import load
from meshgen.runtime.plan import Schedule
from meshgen.runtime.validation.checker import check
from meshgen.spec import P
from tests.codegen.bodies import Body, random_args
from tests.codegen.programs import costs, f32, module
from tests.codegen.random_bodies import random_program

MESH = make_mesh({"x": 2})


def test_element_wise_operands_may_be_overwritten() -> None:
    b = Body("f32[4,6]", "f32[24]", "f32[6]", "f32[4,6]", "i32[4,6]", "bf16[4,6]")
    x, flat, row, mirrored, number, narrow = b.inputs
    y = b.op("add", b.op("tanh", x), b.op("reshape", flat, to="f32[4,6]"))
    y = b.op("multiply", y, b.wide(row, x, (1,)))
    y = b.op("add", y, b.op("reverse", mirrored, dims=(0,)))
    y = b.op("add", y, b.op("convert", number, to="f32[4,6]"))
    y = b.op("add", y, b.op("convert", narrow, to="f32[4,6]"))
    # not in the result: broadcast rows, reversed operands and operands of a narrower dtype
    assert overwrites(b.done(y)) == {0: (0,), 1: (0,), 4: (0,)}


def test_dot_operand_is_kept_and_epilogue_operand_overwritten() -> None:
    b = Body("f32[4,4]", "f32[4,4]", "f32[4,4]")
    product = b.dot(b.inputs[0], b.inputs[1], ((1,), (0,)))
    assert overwrites(b.done(b.op("add", product, b.inputs[2]))) == {2: (0,)}
    b = Body("f32[4,4]", "f32[4,4]")
    assert overwrites(b.done(b.op("add", b.dot(*b.inputs, ((1,), (0,))), b.inputs[1]))) == {}


def test_operand_read_differently_by_other_result_is_kept() -> None:
    b = Body("f32[4]", "f32[4]")
    x, y = b.inputs
    assert overwrites(b.done(b.op("tanh", x), b.op("add", x, y))) == {0: (0, 1), 1: (1,)}
    b = Body("f32[4]")
    (z,) = (b.op("tanh", b.inputs[0]),)
    assert overwrites(b.done(z, z)) == {0: (0, 1)}
    b = Body("f32[4]")
    x = b.inputs[0]
    assert overwrites(b.done(b.op("tanh", x), b.op("reverse", x, dims=(0,)))) == {}
    # each of the results loads x separately
    assert overwrites(b.done(b.op("tanh", x), b.op("reshape", x, to="f32[2,2]"))) == {}


@pytest.mark.parametrize("seed", range(40))
def test_overwritable_operand_only_affects_same_element(seed: int) -> None:
    """In random kernels, a changed element of an overwritable operand only changes results at the same index."""
    rng = np.random.default_rng(seed)
    for body in fuse(Module(make_mesh({"x": 1}), random_program(seed), "partition")).kernels.values():
        for operand in overwrites(body):
            args = random_args(body)
            before = evaluate(body, args)
            changed = int(rng.integers(args[operand].size))
            other = args[operand].copy()
            other.reshape(-1)[changed] += 3
            after = evaluate(body, [other if n == operand else arg for n, arg in enumerate(args)])
            for old, new in zip(before, after, strict=True):
                differs = np.flatnonzero(old.reshape(-1) != new.reshape(-1))
                assert set(differs.tolist()) <= {changed}, body.name


def residual(*, read_later: bool = False, mirrored: bool = False) -> Module:
    """Return a program that computes h = tanh(x), g = tanh(h) and y = h + g.

    h has two users. The last one writes y, unless `read_later` adds another user.
    """
    local = f32(300, 3)
    bodies = {"tanh": Body("f32[300,3]"), "add": Body("f32[300,3]", "f32[300,3]")}
    kernels = {"tanh": bodies["tanh"].done(bodies["tanh"].op("tanh", *bodies["tanh"].inputs))}
    left, right = bodies["add"].inputs
    kernels["add"] = bodies["add"].done(
        bodies["add"].op("add", bodies["add"].op("reverse", left, dims=(0,)) if mirrored else left, right)
    )
    for name, body in kernels.items():
        body.name = name
    graph = Graph("main", [Value(local, "x")])

    def launch(name: str, *operands: Value) -> Value:
        return graph.add("kernel", operands, [local], {"kernel": name}).result

    h = launch("tanh", *graph.inputs)
    y = launch("add", h, launch("tanh", h))
    graph.outputs = [launch("add", y, h)] if read_later else [y]
    return module(graph, kernels, MESH, [P("x", None)], [P("x", None)], [(600, 3)], [(600, 3)])


def plan_of(program: Module) -> Schedule:
    plan = schedule(program, costs=costs())
    check(plan, program.mesh)
    return plan


def test_residual_is_added_in_place(tmp_path) -> None:
    program = residual()
    plan = plan_of(program)
    assert plan.buffers[plan.items[-1].inputs[0]].offset == plan.buffers[plan.outputs[0]].offset
    assert plan.arena_bytes == 3 * 3840  # three buffers of 3600 bytes: x, h (later y) and g
    write_module(tmp_path / "m.mgx", program, plan)
    x = np.random.default_rng(0).standard_normal((600, 3)).astype(np.float32)
    (y,) = load(tmp_path / "m.mgx").run([x])
    np.testing.assert_allclose(y, np.tanh(x) + np.tanh(np.tanh(x)), rtol=1e-5)


def test_operand_read_later_or_reversed_is_not_overwritten() -> None:
    def distance(plan: Schedule, item: int, operand: int) -> int:
        numbers = plan.items[item].outputs[0], plan.items[item].inputs[operand]
        return plan.buffers[numbers[0]].offset - plan.buffers[numbers[1]].offset

    later = plan_of(residual(read_later=True))
    assert distance(later, 2, 0) != 0 and distance(later, 2, 1) == 0, "g is over, h is not"
    mirrored = plan_of(residual(mirrored=True))
    assert distance(mirrored, 2, 0) != 0 and distance(mirrored, 2, 1) == 0


@pytest.mark.parametrize("operand", [0, 1])
def test_checker_rejects_forged_kernel_aliasing(operand: int) -> None:
    """The result is moved onto a reversed operand, or onto an operand with a later read."""
    program = residual(mirrored=True) if operand == 0 else residual(read_later=True)
    plan = plan_of(program)
    item = plan.items[2]
    target = plan.buffers[item.inputs[0]].offset
    buffers = [b._replace(offset=target) if n == item.outputs[0] else b for n, b in enumerate(plan.buffers)]
    with pytest.raises(ScheduleError, match=r"MG0402.*share bytes"):
        check(replace(plan, buffers=tuple(buffers)), program.mesh)
