"""Tests of all-reduces in place: when they are planned, how much memory they save, and which ones the checker accepts."""

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
    """Return a program that computes tanh(x), all-reduces it, and doubles the result.

    The operand of the all-reduce may be read again, be a result (`kept`), or be the program's input (`of_input`).
    """
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
    """Return for each all-reduce whether its result has the same offset as its operand."""
    reductions = [item for item in plan.items if item.op == "all_reduce"]
    return [plan.buffers[i.inputs[0]].offset == plan.buffers[i.outputs[0]].offset for i in reductions]


def test_all_reduce_overwrites_operand_without_other_users() -> None:
    plan = plan_of(reduced())
    assert in_place(plan) == [True]
    assert plan.arena_bytes < plan_of(reduced(read_again=True)).arena_bytes
    chain = plan_of(reduced(twice=True))
    assert in_place(chain) == [True, True] and chain.arena_bytes == plan.arena_bytes


@pytest.mark.parametrize("reason", ["read_again", "kept", "of_input"])
def test_all_reduce_keeps_operand_with_other_users(reason: str) -> None:
    assert in_place(plan_of(reduced(**{reason: True}))) == [False]


def test_all_reduce_on_one_device_is_not_in_place() -> None:
    assert in_place(plan_of(reduced(parts=1))) == [False]


@pytest.mark.parametrize("twice", [False, True])
def test_in_place_all_reduce_computes_correct_results(twice: bool, tmp_path) -> None:
    program = reduced(twice=twice)
    write_module(tmp_path / "m.mgx", program, plan_of(program))
    x = np.random.default_rng(0).standard_normal((256, 3)).astype(np.float32)
    (y,) = load(tmp_path / "m.mgx").run([x])
    scale = 8 if twice else 2  # `twice` adds a second sum over the four devices
    expected = np.tile(scale * np.tanh(x.reshape(4, 64, 3)).sum(axis=0), (4, 1))
    assert np.allclose(y, expected, rtol=1e-5, atol=1e-5)


def changed(plan: Schedule, index: int, **changes: object) -> Schedule:
    items = [replace(item, **changes) if n == index else item for n, item in enumerate(plan.items)]
    return replace(plan, items=tuple(items))


def test_checker_rejects_other_collectives_in_place() -> None:
    plan = plan_of(reduced())
    (index,) = (n for n, item in enumerate(plan.items) if item.op == "all_reduce")
    other = {"axes": ("x",), "root": (0,), "kind": "sum"}
    with pytest.raises(ScheduleError, match=r"MG0402.*share bytes"):
        check(changed(plan, index, op="reduce_to", attrs=other), make_mesh({"x": 4}))


def test_checker_detects_later_read_of_overwritten_operand() -> None:
    plan = plan_of(reduced())
    last: Item = plan.items[-1]
    (summand,) = next(item for item in plan.items if item.op == "all_reduce").inputs
    with pytest.raises(ScheduleError, match=r"MG0402.*share bytes"):
        check(changed(plan, len(plan.items) - 1, inputs=(last.inputs[0], summand)), make_mesh({"x": 4}))


def test_checker_rejects_shifted_overlap_with_operand() -> None:
    plan = plan_of(reduced())
    (item,) = (item for item in plan.items if item.op == "all_reduce")
    (result,) = item.outputs
    for shift in (256, 512):
        buffers = [b._replace(offset=b.offset + shift) if n == result else b for n, b in enumerate(plan.buffers)]
        room = replace(plan, buffers=tuple(buffers), arena_bytes=plan.arena_bytes + shift)
        with pytest.raises(ScheduleError, match=r"MG0402.*(share bytes|at the same time)"):
            check(room, make_mesh({"x": 4}))


def test_in_place_all_reduce_requires_its_waits() -> None:
    """Streams that read the operand must finish before the all-reduce overwrites it."""
    plan = plan_of(reduced())
    for index, item in enumerate(plan.items):
        for event in item.waits:
            with pytest.raises(ScheduleError, match=r"MG040[12]"):
                check(changed(plan, index, waits=tuple(e for e in item.waits if e != event)), make_mesh({"x": 4}))
    assert any(item.waits for item in plan.items)
    assert sum(1 for _ in itertools.chain.from_iterable(item.waits for item in plan.items)) == 2


def test_memory_report_counts_aliased_bytes_once() -> None:
    plan = plan_of(reduced())
    memory = memory_of(plan)
    assert memory.live_bytes <= memory.peak_bytes == plan.arena_bytes
    (part,) = simulate([Scheduled(make_mesh({"x": 4}), plan)]).parts
    assert peak_of(memory_over_time(part))[1] == memory.live_bytes


def updating(*, dead: bool) -> Module:
    """Return a program whose second kernel writes one row of tanh(x) in place. tanh(x) is also a result unless `dead`."""
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


def test_window_update_without_aliased_operand_is_rejected() -> None:
    """Outside of the window, the result would contain old memory contents."""
    plan_of(updating(dead=True))
    with pytest.raises(
        ScheduleError, match=r"MG0402.*updates buffer .* in place, but it does not have the bytes of buffer"
    ):
        plan_of(updating(dead=False))
