"""Reductions that are written over their operand: where they are planned, what they save, and what the checker takes for one."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from meshgen.codegen.packaging.package import write_module
from meshgen.codegen.scheduling.schedule import schedule
from meshgen.errors import ScheduleError
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.reports.memory import memory_of
from meshgen.runtime.in_place import UPDATE
from meshgen.runtime.loading import load
from meshgen.runtime.plan import Item, Schedule
from meshgen.runtime.validation.checker import check
from meshgen.simulator.simulation import Scheduled, simulate
from meshgen.simulator.trace import memory_over_time, peak_of
from meshgen.spec import P
from tests.codegen.programs import body, costs, f32, module


def reduced(
    *, parts: int = 4, read_again: bool = False, kept: bool = False, of_input: bool = False, twice: bool = False
) -> Module:
    """x + 0 summed over the devices and doubled; the summand may be read again, be a result too, or be the input itself."""
    local = f32(64, 3)
    kernels = {"tanh": body("tanh", "tanh", [local], local), "add": body("add", "add", [local, local], local)}
    graph = Graph("main", [Value(local, "x")])
    h = graph.inputs[0] if of_input else graph.add("kernel", graph.inputs, [local], {"kernel": "tanh"}).result
    total = graph.add("all_reduce", [h], [local], {"axes": ("x",), "kind": "sum"}).result
    if twice:
        total = graph.add("all_reduce", [total], [local], {"axes": ("x",), "kind": "sum"}).result
    y = graph.add("kernel", [total, h if read_again else total], [local], {"kernel": "add"}).result
    graph.outputs = [y, h] if kept else [y]
    tall, count = (parts * 64, 3), len(graph.outputs)
    return module(graph, kernels, make_mesh({"x": parts}), [P("x", None)], [P("x", None)] * count, [tall], [tall] * count)  # fmt: skip


def plan_of(program: Module) -> Schedule:
    plan = schedule(program, costs=costs())
    check(plan, program.mesh)
    return plan


def in_place(plan: Schedule) -> list[bool]:
    """Of each reduction, whether it writes where it reads."""
    found = [item for item in plan.items if item.op == "all_reduce"]
    return [plan.buffers[i.inputs[0]].offset == plan.buffers[i.outputs[0]].offset for i in found]


def test_a_summand_that_nothing_else_reads_is_overwritten() -> None:
    plan = plan_of(reduced())
    assert in_place(plan) == [True]
    assert plan.arena_bytes < plan_of(reduced(read_again=True)).arena_bytes
    chain = plan_of(reduced(twice=True))
    assert in_place(chain) == [True, True] and chain.arena_bytes == plan.arena_bytes


@pytest.mark.parametrize("reason", ["read_again", "kept", "of_input"])
def test_a_summand_that_is_needed_stays(reason: str) -> None:
    assert in_place(plan_of(reduced(**{reason: True}))) == [False]


def test_one_device_reduces_nothing() -> None:
    assert in_place(plan_of(reduced(parts=1))) == [False]


@pytest.mark.parametrize("twice", [False, True])
def test_the_numbers_are_right(twice: bool, tmp_path) -> None:
    program = reduced(twice=twice)
    write_module(tmp_path / "m.mgx", program, plan_of(program))
    x = np.random.default_rng(0).standard_normal((256, 3)).astype(np.float32)
    (y,) = load(tmp_path / "m.mgx").run([x])
    scale = 8 if twice else 2  # summed over the four devices again
    expected = np.tile(scale * np.tanh(x.reshape(4, 64, 3)).sum(axis=0), (4, 1))
    assert np.allclose(y, expected, rtol=1e-5, atol=1e-5)


def changed(plan: Schedule, number: int, **changes: object) -> Schedule:
    items = [replace(item, **changes) if n == number else item for n, item in enumerate(plan.items)]
    return replace(plan, items=tuple(items))


def test_only_a_reduction_may_do_so() -> None:
    plan = plan_of(reduced())
    (number,) = (n for n, item in enumerate(plan.items) if item.op == "all_reduce")
    other = {"axes": ("x",), "root": (0,), "kind": "sum"}
    with pytest.raises(ScheduleError, match=r"MG0402.*share bytes"):
        check(changed(plan, number, op="reduce_to", attrs=other), make_mesh({"x": 4}))


def test_a_later_read_of_the_summand_is_found() -> None:
    plan = plan_of(reduced())
    last: Item = plan.items[-1]
    (summand,) = next(item for item in plan.items if item.op == "all_reduce").inputs
    with pytest.raises(ScheduleError, match=r"MG0402.*share bytes"):
        check(changed(plan, len(plan.items) - 1, inputs=(last.inputs[0], summand)), make_mesh({"x": 4}))


def test_the_result_lies_where_the_summand_lies_and_nowhere_else_in_it() -> None:
    plan = plan_of(reduced())
    (item,) = (item for item in plan.items if item.op == "all_reduce")
    (result,) = item.outputs
    for shift in (256, 512):
        buffers = [b._replace(offset=b.offset + shift) if n == result else b for n, b in enumerate(plan.buffers)]
        room = replace(plan, buffers=tuple(buffers), arena_bytes=plan.arena_bytes + shift)
        with pytest.raises(ScheduleError, match=r"MG0402.*(share bytes|at the same time)"):
            check(room, make_mesh({"x": 4}))


def test_waits_still_count() -> None:
    """What another stream does with the summand must be over too."""
    plan = plan_of(reduced())
    for number, item in enumerate(plan.items):
        for event in item.waits:
            with pytest.raises(ScheduleError, match=r"MG040[12]"):
                check(changed(plan, number, waits=tuple(e for e in item.waits if e != event)), make_mesh({"x": 4}))
    assert any(item.waits for item in plan.items)
    assert sum(1 for _ in itertools.chain.from_iterable(item.waits for item in plan.items)) == 2


def test_bytes_in_use_are_counted_once() -> None:
    plan = plan_of(reduced())
    found = memory_of(plan)
    assert found.live_bytes <= found.peak_bytes == plan.arena_bytes
    (part,) = simulate([Scheduled(make_mesh({"x": 4}), plan)]).parts
    assert peak_of(memory_over_time(part))[1] == found.live_bytes


def updating(*, dead: bool) -> Module:
    """A kernel that writes a window of the tangents of x alone; they are a result, too, unless they are `dead`."""
    wide, window = f32(16, 8), f32(1, 8)
    x, row, at = Value(wide, "x"), Value(window, "row"), Value(TensorType((), "i32"), "at")
    write = Graph("write", [Value(v.type, v.name) for v in (x, row, at)])
    write.outputs = [write.add(UPDATE, [*write.inputs, write.inputs[2]], [wide]).result]
    graph = Graph("main", [x, row, at])
    h = graph.add("kernel", [x], [wide], {"kernel": "tanh"}).result
    new = graph.add("kernel", [h, row, at], [wide], {"kernel": "write"}).result
    graph.outputs = [new] if dead else [new, h]
    kernels, count = {"tanh": body("tanh", "tanh", [wide], wide), "write": write}, len(graph.outputs)
    shapes = [v.type.sizes for v in graph.inputs]
    specs = [P(*[None] * len(shape)) for shape in shapes]
    return module(graph, kernels, make_mesh({"x": 1}), specs, [P(None, None)] * count, shapes, [wide.sizes] * count)


def test_update_of_a_window_is_refused_where_result_is_not_over_its_operand() -> None:
    """All of the result but the window would be whatever was in its bytes before."""
    plan_of(updating(dead=True))
    with pytest.raises(
        ScheduleError, match=r"MG0402.*updates buffer .* in place, but it does not have the bytes of buffer"
    ):
        plan_of(updating(dead=False))
