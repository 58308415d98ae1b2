"""Mutation tests of the plan checker: it detects and names each kind of change that breaks a valid schedule."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from meshgen.codegen.scheduling.schedule import schedule
from meshgen.errors import ScheduleError
from meshgen.ir.graph import Graph, Module, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.runtime.plan import COMPUTE, Schedule, aligned
from meshgen.runtime.validation.checker import Order, chain_faults, check, happens_before
from meshgen.runtime.validation.structure import MAX_FAULTS, structure_faults
from meshgen.spec import P
from tests.codegen.programs import body, costs, f32, layers, mixed, module
from tests.counting import calls

MODULE = layers(5)
PLAN = schedule(MODULE, costs=costs())


def with_item(plan: Schedule, number: int, **changes) -> Schedule:
    items = list(plan.items)
    items[number] = replace(items[number], **changes)
    return replace(plan, items=tuple(items))


def with_buffer(plan: Schedule, number: int, **changes) -> Schedule:
    buffers = list(plan.buffers)
    buffers[number] = buffers[number]._replace(**changes)
    return replace(plan, buffers=tuple(buffers))


def refused(plan: Schedule, pattern: str, mesh=MODULE.mesh) -> None:
    with pytest.raises(ScheduleError, match=pattern):
        check(plan, mesh)


@pytest.mark.parametrize("number", [n for n, i in enumerate(PLAN.items) if i.waits])
def test_checker_detects_dropped_wait(number):
    refused(with_item(PLAN, number, waits=()), rf"MG0402.*item {number} .*without waiting for item")


@pytest.mark.parametrize("number", [n for n, i in enumerate(PLAN.items) if i.records is not None])
def test_checker_detects_dropped_record(number):
    refused(with_item(PLAN, number, records=None), r"MG0401.*which no item records")


def dependent_neighbors(plan: Schedule) -> list[int]:
    """Return the indices of the items whose result the next item reads."""
    pairs = enumerate(itertools.pairwise(plan.items))
    return [n for n, (left, right) in pairs if set(left.outputs) & set(right.inputs)]


def test_checker_detects_event_recorded_too_late():
    event = next(e for i in PLAN.items for e in i.waits)
    number = next(n for n, i in enumerate(PLAN.items) if i.records == event)
    last = len(PLAN.items) - 1
    refused(with_item(with_item(PLAN, number, records=None), last, records=event), "records, which comes later")


@pytest.mark.parametrize("number", dependent_neighbors(PLAN))
def test_checker_detects_swapped_dependent_items(number):
    items = list(PLAN.items)
    items[number : number + 2] = reversed(items[number : number + 2])
    refused(replace(PLAN, items=tuple(items)), r"MG040[12]")


def test_checker_detects_collective_moved_to_other_stream():
    second = [n for n, i in enumerate(PLAN.items) if i.is_collective][1]
    refused(with_item(PLAN, second, stream=COMPUTE), r"MG0401.*nothing orders collective")


def storages(plan: Schedule) -> list[int]:
    return [n for n, b in enumerate(plan.buffers) if b.storage == n and b.type.nbytes]


@pytest.mark.parametrize("module", [MODULE, mixed()], ids=["layers", "mixed"])
def test_checker_detects_every_offset_that_causes_a_race(module):
    """The test moves each storage onto every other one. The checker must reject the plan if both are live at once."""
    plan = schedule(module, costs=costs())
    conflicts = 0
    for number in storages(plan):
        for other in storages(plan):
            target = plan.buffers[other].offset
            if target == plan.buffers[number].offset:
                continue
            moved = [b._replace(offset=target) if b.storage == number else b for b in plan.buffers]
            try:
                check(replace(plan, buffers=tuple(moved)), module.mesh)
            except ScheduleError as error:
                assert {d.code for d in error.diagnostics} == {"MG0402"}
                conflicts += 1
    permanent = [n for n in storages(plan) if plan.buffers[n].kind != "temporary"]
    assert conflicts >= len(permanent) * (len(permanent) - 1)


def test_checker_detects_read_of_overwritten_buffer():
    # place a later output at the offset of the first output, which is still read after that
    first = PLAN.items[0].outputs[0]
    late = next(i.outputs[0] for i in PLAN.items[1:] if i.kernel == "tanh")
    moved = with_buffer(PLAN, late, offset=PLAN.buffers[first].offset)
    refused(moved, rf"buffer {min(first, late)} .*share bytes")


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"offset": 128}, "multiples of 256"),
        ({"offset": -256}, "is at bytes -256"),
        ({"offset": 1 << 40}, "of an arena of"),
        ({"storage": 99}, "views buffer 99"),
        ({"storage": 0}, "is at another offset"),
        ({"kind": "scratch"}, "unknown kind"),
        ({"type": TensorType((1, 1), "f32")}, "but its buffer"),
    ],
)
def test_checker_rejects_malformed_buffer(changes, pattern):
    refused(with_buffer(PLAN, PLAN.items[1].outputs[0], **changes), pattern)


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"inputs": (99,)}, "does not exist"),
        ({"stream": 5}, "on stream 5"),
        ({"kernel": "other"}, "unknown kernel 'other'"),
        ({"outputs": (0,)}, "overwrites input 0"),
        ({"inputs": (0, 0)}, "but 2 buffers"),
        ({"op": "spy"}, "unknown op 'spy'"),
        ({"waits": (77,)}, "waits for event 77, which no item records"),
    ],
)
def test_checker_rejects_malformed_item(changes, pattern):
    refused(with_item(PLAN, 0, **changes), pattern)


@pytest.mark.parametrize(
    ("changes", "pattern"),
    [
        ({"attrs": {"axes": ("z",), "kind": "sum"}}, "axis 'z' is not in"),
        ({"attrs": {"axes": 3, "kind": "sum"}}, "axes"),
        ({"attrs": {"kind": "sum"}}, "axes"),
        ({"attrs": {"axes": ("x",), "kind": "median"}}, "median"),
        ({"op": "all_gather", "attrs": {"axes": ("x",), "dim": 0}}, "4 tiles of 3 do not make up 3 rows"),
        ({"inputs": ()}, "all_reduce"),
        ({"op": "retile", "attrs": {"source": 1, "target": 2, "shape": (10, 3)}}, "'source' is 1; it should be a sharding"),
        ({"op": "retile", "attrs": {"source": P("x", None), "target": P(None, "x"), "shape": (10, 3)}}, "does not have shards"),
        ({"op": "retile", "attrs": {"source": P("x", None), "target": P("x", "x"), "shape": (10, 3)}}, "used more than once"),
        ({"op": "permute", "attrs": {"source": P("q", None), "target": P("x", None), "shape": (10, 3)}}, "axis 'q' is not in"),
    ],
)  # fmt: skip
def test_checker_rejects_malformed_collective(changes, pattern):
    number = next(n for n, i in enumerate(PLAN.items) if i.is_collective)
    refused(with_item(PLAN, number, **changes), pattern)


def test_checker_accepts_permute_between_shardings():
    number = next(n for n, i in enumerate(PLAN.items) if i.is_collective)
    attrs = {"source": P("x", None), "target": P("x", None), "shape": (10, 3)}
    check(with_item(PLAN, number, op="permute", attrs=attrs), MODULE.mesh)


def test_checker_rejects_second_writer_and_second_record():
    first, second = PLAN.items[0], next(i for i in PLAN.items[1:] if i.kernel == "tanh")
    index = PLAN.items.index(second)
    refused(with_item(PLAN, index, outputs=first.outputs), "both write")
    refused(with_item(PLAN, len(PLAN.items) - 1, records=first.records), "and again by")


def test_checker_rejects_temporary_or_unwritten_output():
    temporary = next(n for n, b in enumerate(PLAN.buffers) if b.kind == "temporary")
    refused(replace(PLAN, outputs=(temporary,)), "must not be in the signature")
    last = len(PLAN.items) - 1
    refused(replace(PLAN, items=PLAN.items[:last]), "never written")


def test_checker_rejects_arena_larger_than_buffers():
    buffer_bytes = sum(aligned(b.type.nbytes) for b in PLAN.buffers)
    refused(replace(PLAN, arena_bytes=buffer_bytes + 256), "need only")


def test_checker_reports_all_faults_together():
    broken = with_item(with_item(PLAN, 0, kernel="other"), 1, stream=9)
    with pytest.raises(ScheduleError) as caught:
        check(broken, MODULE.mesh)
    assert len(caught.value.diagnostics) == 2


def test_checker_detects_shared_single_byte():
    module = layers(2)
    small = TensorType((), "i1")
    for value in (*module.graph.values(), *(v for kernel in module.kernels.values() for v in kernel.values())):
        value.type = small
    plan = schedule(module, costs=costs())
    check(plan, module.mesh)
    first, second = next(n for n, b in enumerate(plan.buffers) if b.kind == "input"), plan.items[0].outputs[0]
    refused(with_buffer(plan, second, offset=plan.buffers[first].offset), "share bytes", module.mesh)


def test_checker_rejects_launch_with_wrong_operand_count():
    number = next(n for n, i in enumerate(PLAN.items) if i.kernel == "add")
    inputs, outputs = PLAN.items[number].inputs, PLAN.items[number].outputs
    moved = {"inputs": inputs[:1], "outputs": (inputs[1], *outputs)} if len(inputs) > 1 else {"inputs": (), "outputs": (*inputs, *outputs)}  # fmt: skip
    refused(with_item(PLAN, number, **moved), r"MG0402.*kernel 'add' has [12] inputs, but")


def test_checker_requires_order_between_collectives():
    """Collectives on different streams must be ordered with each other. Waits for other items are not sufficient."""
    first, second = [i for i in PLAN.items if i.is_collective][:2]
    items = [replace(first, waits=(), records=None), replace(second, stream=COMPUTE, waits=(), records=None)]
    orders = [Order([item.stream for item in items], [(-1, -1), done]) for done in ((-1, 0), (-1, -1))]
    assert [len(chain_faults(items, order)) for order in orders] == [0, 1]


# Scratch of collectives --------------------------------------------------------------------------------------------


def gathered(rows: int = 9) -> Module:
    """Return a program that gathers columns. Collectives receive them into scratch, from which they are unpacked."""
    mesh, tile = make_mesh({"x": 4}), f32(rows, 3)
    graph = Graph("main", [Value(tile, "a")])
    whole = graph.add("all_gather", graph.inputs, [f32(rows, 12)], {"axes": ("x",), "dim": 1}).result
    kernels = {"tanh": body("tanh", "tanh", [whole.type], whole.type)}
    graph.outputs = [graph.add("kernel", [whole], [whole.type], {"kernel": "tanh"}).result]
    return module(graph, kernels, mesh, [P(None, "x")], [P(None, None)], [(rows, 12)], [(rows, 12)])


def test_packing_collective_has_exclusive_scratch():
    plan = schedule(gathered(), costs=costs())
    check(plan, gathered().mesh)
    number = plan.items[0].scratch
    assert number is not None and plan.buffers[number].type == TensorType((4 * 9 * 3 * 4,), "ui8")
    assert plan.items[0].writes == (*plan.items[0].outputs, number)
    few = schedule(gathered(8), costs=costs())
    assert few.items[0].scratch is None  # with few rows, each row is gathered by a call of its own, without scratch


def test_checker_detects_missing_small_or_shared_scratch():
    mesh, plan = gathered().mesh, schedule(gathered(), costs=costs())
    number = plan.items[0].scratch
    assert number is not None
    refused(with_item(plan, 0, scratch=None), r"MG0402.*has 0 B of scratch, but needs 432 B", mesh)
    refused(with_buffer(plan, number, type=TensorType((431,), "ui8")), "has 431 B of scratch, but needs 432 B", mesh)
    refused(with_buffer(plan, number, kind="output"), "which is not a temporary", mesh)
    refused(with_item(plan, 0, scratch=plan.inputs[0]), "the scratch of .* is buffer 0, which is not a temporary", mesh)
    refused(with_item(plan, 0, scratch=plan.items[0].outputs[0]), "both write buffer", mesh)
    refused(with_item(plan, 1, scratch=number), "has scratch, but is a kernel", mesh)
    refused(with_buffer(plan, number, offset=plan.buffers[plan.items[0].outputs[0]].offset), "MG0402", mesh)
    refused(with_item(plan, 0, scratch=99), "a buffer that does not exist", mesh)


def test_checker_work_is_linear_in_faulty_items() -> None:
    """A forged file may have any number of faulty items. The checker stops at MAX_FAULTS."""
    first = replace(PLAN.items[0], waits=tuple(range(1000, 1500)), records=None)
    (few, _), (many, (_, faults)) = (calls(lambda count=count: happens_before([first] * count)) for count in (250, 500))
    assert len(faults) == MAX_FAULTS and many < 2.5 * few


def test_checker_compares_operand_counts_before_operand_types() -> None:
    name = next(item.kernel for item in PLAN.items if item.kernel)
    body = replace(PLAN.kernels[name], inputs=[Value(TensorType((), "f32"))] * 20_000)
    number = next(n for n, item in enumerate(PLAN.items) if item.kernel == name)
    counts: list[int] = []
    for launches in (2_500, 5_000):
        items = (*PLAN.items, *[PLAN.items[number]] * launches)
        forged = replace(PLAN, kernels={**PLAN.kernels, name: body}, items=items)
        count, faults = calls(lambda forged=forged: structure_faults(forged, MODULE.mesh))
        assert len(faults) == MAX_FAULTS
        counts.append(count)
    assert counts[1] < counts[0] + 2_500 * 1_000  # each of the launches costs much less than checking its 20,000 inputs
