"""Tests of the `concatenate-in-place` pass: concatenations whose parts are computed in the buffer of the result
(joins).

The checker must reject forged schedules of joins.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from meshgen.codegen.fuse import fuse
from meshgen.codegen.fusion.group_growth import Grouping
from meshgen.codegen.fusion.grouping import grouped
from meshgen.codegen.packaging.package import write_module
from meshgen.codegen.passes.concatenate_in_place import concatenate_in_place
from meshgen.codegen.scheduling.schedule import schedule
from meshgen.codegen.scheduling.schedule_stage import scheduled
from meshgen.compilation import Compilation
from meshgen.errors import ScheduleError
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.mlir.text import parse_text, print_text
from meshgen.reports.memory import memory_of
from meshgen.runtime import writes
from meshgen.runtime.loading import load
from meshgen.runtime.plan import MOST_PARTS, Item, Schedule
from meshgen.runtime.simulate import simulate
from meshgen.runtime.validation.checker import check
from meshgen.spec import P
from tests.codegen.programs import costs, f32

MESH = make_mesh({"x": 2})
SIZES = (64, 128, 1)  # only the last part may have an unaligned size


def _unfused(sizes: tuple[int, ...] = SIZES, *, of_input: bool = False, kept: bool = False, twice: bool = False) -> Module:  # fmt: skip
    """Return a program that sums rows of the arguments, all-reduces the concatenated sums, and slices the result."""
    graph = Graph("main", [Value(f32(size, 8), f"x{n}") for n, size in enumerate(sizes)])
    zero = graph.add("constant", [], [f32()], {"value": np.zeros((), np.float32)}).result
    sums = [graph.add("reduce", [x, zero], [f32(x.type.sizes[0])], {"dims": (1,), "kind": "add"}).result for x in graph.inputs]  # fmt: skip
    if of_input:
        graph.inputs.append(Value(f32(64), "given"))
        sums[0] = graph.inputs[-1]
    if twice:
        sums[1] = sums[0]
    total = sum(v.type.size for v in sums)
    joined = graph.add("concatenate", sums, [f32(total)], {"dim": 0}).result
    summed = graph.add("all_reduce", [joined], [f32(total)], {"axes": ("x",), "kind": "sum"}).result
    first = {"start": (0,), "limit": (sizes[0],), "stride": (1,)}
    part = graph.add("slice", [summed], [f32(sizes[0])], first).result
    graph.outputs = [graph.add("tanh", [part], [part.type]).result, *([sums[0]] if kept else [])]
    return Module(
        MESH, graph, "partition", in_types=[_wide(v.type) for v in graph.inputs],
        out_types=[_wide(v.type) for v in graph.outputs], in_shardings=[_rows(v.type) for v in graph.inputs],
        out_shardings=[_rows(v.type) for v in graph.outputs],
    )  # fmt: skip


def message(*sizes: tuple[int, ...], **options: bool) -> Module:
    """Return the fused program of `_unfused`."""
    return fuse(_unfused(*sizes, **options))


def _wide(kind: TensorType) -> TensorType:
    return kind.with_shape((2 * kind.sizes[0], *kind.sizes[1:]))


def _rows(kind: TensorType) -> P:
    return P("x", *(None,) * (kind.rank - 1))


def plan_of(module: Module) -> Schedule:
    plan = schedule(module, costs=costs())
    check(plan, module.mesh)
    return plan


def has_join(module: Module) -> bool:
    return "join" in [node.op for node in module.graph.nodes]


def test_parts_of_a_message_are_computed_in_its_buffer(tmp_path: Path) -> None:
    module = message()
    plan = plan_of(module)
    assert has_join(module) and [item.op for item in plan.items] == ["kernel"] * 3 + ["all_reduce", "kernel"]
    (sent,) = (item for item in plan.items if item.op == "all_reduce")
    joined = plan.buffers[sent.inputs[0]]
    parts = [plan.buffers[item.outputs[0]] for item in plan.items[:3]]
    assert sorted(b.offset - joined.offset for b in parts) == [0, 256, 768]
    assert plan.buffers[sent.outputs[0]].offset == joined.offset, "the all_reduce works in place"
    write_module(tmp_path / "m.mgx", module, plan)
    rng = np.random.default_rng(0)
    args = [rng.standard_normal((2 * size, 8)).astype(np.float32) for size in SIZES]
    (got,) = load(tmp_path / "m.mgx").run(args)
    expected = np.tanh(args[0].reshape(2, 64, 8).sum(axis=(0, 2)))
    np.testing.assert_allclose(got, np.tile(expected, 2), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(simulate(module, args)[0], got, rtol=1e-6)


def test_join_round_trips_through_text() -> None:
    module = message()
    text = print_text(scheduled(module, plan_of(module)))
    back = parse_text(text)
    assert [n.op for n in back.graph.nodes].count("join") == 1 and print_text(back) == text


@pytest.mark.parametrize("options", [{"of_input": True}, {"kept": True}, {"twice": True}, {"sizes": (64, 3, 1)}])
def test_parts_that_cannot_be_computed_in_place_prevent_a_join(options: dict) -> None:
    """Check arguments, program results, repeated values and unaligned offsets as parts."""
    module = message(**options)
    assert not has_join(module)
    plan_of(module)


def test_join_keeps_the_kernel_grouping_of_the_concatenation() -> None:
    module = concatenate_in_place(_unfused(), context := Compilation())
    assert "join" in {node.op for node in module.graph.nodes}
    kept = context.latest(grouped, module.graph)
    assert kept.graph is module.graph, "the pass updated the grouping with the graph"
    assert _kernels(kept) == _kernels(grouped(module.graph))


def _kernels(grouping: Grouping) -> list[tuple[str, set[Node], set[Value]]]:
    """Return the kind, member nodes and operands of each fusion group."""
    return [(group.form, {*group.members}, {*group.reads}) for group in grouping.groups]


def test_concatenation_of_too_many_parts_becomes_no_join() -> None:
    sizes = (64,) * (MOST_PARTS + 1)
    assert not has_join(message(sizes)) and has_join(message(sizes[1:]))


def summed_parts(*, kept: bool = False) -> Module:
    """Return a program that all-reduces two row sums separately and then all-reduces their concatenation."""
    graph = Graph("main", [Value(f32(64, 8), f"x{n}") for n in range(2)])
    zero = graph.add("constant", [], [f32()], {"value": np.zeros((), np.float32)}).result
    sums = [graph.add("reduce", [x, zero], [f32(64)], {"dims": (1,), "kind": "add"}).result for x in graph.inputs]
    reduced_sums = [graph.add("all_reduce", [v], [f32(64)], {"axes": ("x",), "kind": "sum"}).result for v in sums]
    joined = graph.add("concatenate", reduced_sums, [f32(128)], {"dim": 0}).result
    sent = graph.add("all_reduce", [joined], [f32(128)], {"axes": ("x",), "kind": "sum"}).result
    graph.outputs = [graph.add("tanh", [sent], [f32(128)]).result, *([sums[0]] if kept else [])]
    kinds = [v.type for v in (*graph.inputs, *graph.outputs)]
    shardings = [_rows(kind) for kind in kinds]
    return fuse(
        Module(
            MESH, graph, "partition", in_types=[_wide(kind) for kind in kinds[:2]],
            out_types=[_wide(kind) for kind in kinds[2:]], in_shardings=shardings[:2], out_shardings=shardings[2:],
        )
    )  # fmt: skip


def reductions(plan: Schedule) -> list[Item]:
    return [item for item in plan.items if item.op == "all_reduce"]


def test_summand_of_in_place_reduction_is_computed_in_the_join(tmp_path: Path) -> None:
    module = summed_parts()
    plan = plan_of(module)
    assert has_join(module)
    *parts, last = reductions(plan)
    start = plan.buffers[last.inputs[0]].offset
    for index, item in enumerate(parts):
        summand, result = plan.buffers[item.inputs[0]], plan.buffers[item.outputs[0]]
        assert summand.offset == result.offset == start + 256 * index
        assert summand.storage != result.storage
    assert memory_of(plan).live_bytes <= plan.arena_bytes == 2 * 64 * 8 * 4 + 128 * 4, "summands take no extra bytes"
    write_module(tmp_path / "m.mgx", module, plan)
    args = [np.random.default_rng(n).standard_normal((128, 8)).astype(np.float32) for n in range(2)]
    (got,) = load(tmp_path / "m.mgx").run(args)
    expected = np.tanh(2 * np.concatenate([x.reshape(2, 64, 8).sum(axis=(0, 2)) for x in args]))
    np.testing.assert_allclose(got, np.tile(expected, 2), rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(simulate(module, args)[0], got, rtol=1e-6)


def test_returned_summand_is_not_computed_in_the_join() -> None:
    plan = plan_of(summed_parts(kept=True))
    *parts, _ = reductions(plan)
    over = [plan.buffers[item.inputs[0]].offset == plan.buffers[item.outputs[0]].offset for item in parts]
    assert sorted(over) == [False, True]


def test_checker_rejects_read_of_overwritten_summand() -> None:
    plan = plan_of(summed_parts())
    first, second, _ = (n for n, item in enumerate(plan.items) if item.op == "all_reduce")
    with pytest.raises(ScheduleError, match=r"MG0402.*share bytes"):
        check(forged(plan, second, inputs=plan.items[first].inputs), MESH)


def forged(plan: Schedule, item: int, **changes: object) -> Schedule:
    return replace(plan, items=tuple(replace(i, **changes) if n == item else i for n, i in enumerate(plan.items)))


def test_checker_rejects_join_with_unwritten_part() -> None:
    """Check a schedule in which a kernel writes a part to another buffer, so that the message would send stale bytes."""
    plan = plan_of(message())
    lost = plan.buffers[plan.items[1].outputs[0]]
    new_buffer = len(plan.buffers)
    other = lost._replace(storage=new_buffer, offset=plan.arena_bytes)
    larger_plan = replace(plan, buffers=(*plan.buffers, other), arena_bytes=plan.arena_bytes + 512)
    with pytest.raises(ScheduleError, match=f"MG0402.*of which no item writes {lost.type.nbytes} bytes"):
        check(forged(larger_plan, 1, outputs=(new_buffer,)), MESH)


def test_checker_rejects_join_part_with_two_writers() -> None:
    plan = plan_of(message((64, 64, 1)))
    with pytest.raises(ScheduleError, match=r"MG0402.*both write buffer"):
        check(forged(plan, 1, outputs=plan.items[0].outputs), MESH)
    moved = plan.buffers[plan.items[1].outputs[0]]
    aliases = [n for n, b in enumerate(plan.buffers) if b == moved]
    start = plan.buffers[plan.items[0].outputs[0]].offset
    buffers = tuple(b._replace(offset=start) if n in aliases else b for n, b in enumerate(plan.buffers))
    with pytest.raises(ScheduleError, match=r"MG0402.*both write buffer"):
        check(replace(plan, buffers=buffers), MESH)


def test_reader_of_a_join_waits_for_every_part() -> None:
    plan = plan_of(message())
    (sent,) = (n for n, item in enumerate(plan.items) if item.op == "all_reduce")
    for event in plan.items[sent].waits:
        left = tuple(e for e in plan.items[sent].waits if e != event)
        with pytest.raises(ScheduleError, match=r"MG0402.*without waiting"):
            check(forged(plan, sent, waits=left), MESH)


def test_checker_rejects_join_of_too_many_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the limit on parts: the checker visits all parts for each read."""
    plan = plan_of(message())
    monkeypatch.setattr(writes, "MOST_PARTS", 2)
    with pytest.raises(ScheduleError, match=r"MG0402.*is written in 3 parts; the limit is 2"):
        check(plan, MESH)
