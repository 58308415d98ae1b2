"""Tests of lowered collectives: their steps, the agreement of all ranks, and equality with the reference semantics."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from meshgen.ccl.check_lowered import check_lowered
from meshgen.ccl.collective import group_of
from meshgen.ccl.host import HostBuffers
from meshgen.ccl.local_transport import Wires, run_lowered
from meshgen.ccl.lower_groups import native_reduction
from meshgen.ccl.steps import (
    OPERAND,
    RESULT,
    SCRATCH,
    Box,
    BufferRef,
    Copy,
    Fill,
    Group,
    Lowered,
    Message,
    Messages,
    Reduce,
    dense,
)  # fmt: skip
from meshgen.errors import RuntimeFailure
from meshgen.ir.graph import Node, TensorType, Value
from meshgen.mesh import make_mesh
from tests.ccl.lowered import FIRST_RANK, faults, lowered_on, run
from tests.ccl.random_collectives import OPS, random_bytes, random_case, random_mesh

LINE, GRID = make_mesh({"x": 4}), make_mesh({"a": 2, "b": 3})


def node(op: str, source: tuple[int, ...], target: tuple[int, ...], dtype: str = "f32", **attrs: Any) -> Node:
    return Node(op, [Value(TensorType(source, dtype))], [Value(TensorType(target, dtype))], attrs)


def kinds(lowered: Lowered) -> list[str]:
    return [step.kind if isinstance(step, Group) else type(step).__name__ for step in lowered.steps]


@pytest.mark.parametrize("op", OPS)
def test_random_lowered_collectives_match_reference(op: str) -> None:
    for number in range(25):
        rng = np.random.default_rng((5, number))
        case = random_case(rng, op)
        assert faults(case, rng) == [], str(case)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i16", "i4", "f8E5M2", "c128", "i1"])
def test_in_place_all_reduce_matches_out_of_place(dtype: str) -> None:
    for number in range(10):
        rng = np.random.default_rng((6, number))
        mesh = random_mesh(rng)
        sums = node("all_reduce", (3, 5), (3, 5), dtype, axes=mesh.names[::-1], kind="sum")
        shards = [random_bytes(rng, sums.operands[0].type) for _ in range(mesh.size)]
        lowered = lowered_on(sums, mesh)
        with np.errstate(all="ignore"):
            results = [run(sums, mesh, lowered, shards, in_place=in_place) for in_place in (False, True)]
        assert [a.tobytes() for a in results[0]] == [a.tobytes() for a in results[1]]


X = {"axes": ("x",)}


@pytest.mark.parametrize(
    "collective, expected",
    [
        (node("all_reduce", (3, 5), (3, 5), **X, kind="sum"), ["all_reduce"]),
        (node("all_reduce", (3, 5), (3, 5), "i1", **X, kind="and"), ["all_reduce"]),
        (node("all_reduce", (3, 5), (3, 5), "i32", **X, kind="xor"), ["Messages", "Reduce", "Messages"]),
        (node("all_reduce", (3, 5), (3, 5), "f8E5M2", **X, kind="sum"), ["Messages", "Reduce", "Messages"]),
        (node("all_gather", (2, 5), (8, 5), **X, dim=0), ["all_gather"]),
        (node("all_gather", (1, 2, 5), (1, 8, 5), **X, dim=1), ["all_gather"]),
        (node("all_gather", (2, 5), (7, 5), **X, dim=0), ["Copy", "Messages"]),
        (node("all_gather", (2, 5), (2, 20), **X, dim=1), ["all_gather"] * 2),
        (node("all_gather", (9, 5), (9, 20), **X, dim=1), ["all_gather", "Copy"]),
        (node("all_gather", (2, 5), (2, 18), **X, dim=1), ["all_gather", "Copy", "Copy"]),
        (node("reduce_scatter", (8, 5), (2, 5), **X, dim=0, kind="sum"), ["reduce_scatter"]),
        (node("reduce_scatter", (2, 20), (2, 5), **X, dim=1, kind="sum"), ["reduce_scatter"] * 2),
        (node("reduce_scatter", (9, 20), (9, 5), **X, dim=1, kind="sum"), ["Copy", "reduce_scatter"]),
        (node("reduce_scatter", (2, 19), (2, 5), **X, dim=1, kind="sum"), ["Copy", "Copy", "reduce_scatter"]),
        (node("reduce_scatter", (8, 5), (2, 5), "i16", **X, dim=0, kind="sum"), ["Messages", "Reduce"]),
        (node("all_to_all", (8, 5), (8, 5), **X, split_dim=0, concat_dim=0), ["all_to_all"]),
        (node("all_to_all", (8, 5), (2, 20), **X, split_dim=0, concat_dim=1), ["Copy", "Messages", "Copy"]),
        (node("broadcast", (8, 5), (8, 5), **X, root=(1,)), ["broadcast"]),
        (node("shift", (8, 5), (8, 5), **X, shift_axis="x", offset=1, rotate=True), ["Messages"]),
        (node("permute_pairs", (8, 5), (8, 5), **X, pairs=((0, 1), (1, 0), (3, 3))), ["Messages"]),
        (node("all_gather", (2, 5), (2, 5), axes=(), dim=1), ["Copy"]),
        (node("all_reduce", (0, 5), (0, 5), **X, kind="sum"), []),
    ],
    ids=lambda value: "" if isinstance(value, list) else value.op,
)
def test_lowering_copies_only_noncontiguous_data(collective: Node, expected: list[str]) -> None:
    assert kinds(lowered_on(collective, LINE)[0]) == expected


def test_unsupported_dtype_maps_to_equivalent_nccl_type() -> None:
    assert native_reduction("sum", "c64", "c64") == ("sum", "f32", 2)
    assert native_reduction("or", "i1", "i1") == ("max", "ui8", 1)
    assert native_reduction("product", "c64", "c64") is None
    assert native_reduction("sum", "bf16", "f32") is None
    call = lowered_on(node("all_reduce", (3,), (3,), "c128", **X, kind="sum"), LINE)[0].steps[0]
    assert isinstance(call, Group) and (call.dtype, call.count) == ("f64", 6)


def test_columns_are_packed_once_for_all_receivers() -> None:
    step = lowered_on(node("all_gather", (2, 5), (2, 18), **X, dim=1), LINE)[0]
    assert step.scratch_bytes == 4 * 2 * 5 * 4
    columns = lowered_on(node("all_to_all", (8, 8), (32, 2), **X, split_dim=1, concat_dim=0), LINE)
    assert columns[0].scratch_bytes == 3 * 8 * 2 * 4  # blocks are packed before sending and received in place
    assert {program.local_bytes for program in columns} == {2 * 4 * 8 * 2 * 4}


@pytest.mark.parametrize("seed", range(6))
def test_group_of_rank_matches_mesh_groups(seed: int) -> None:
    mesh = random_mesh(np.random.default_rng(seed))
    refs = [*mesh.names[::-1]]
    refs = [part for ref in refs for part in (mesh.split_axis(ref, 2, 2)[::-1] if mesh.axis_size(ref) == 4 else (ref,))]
    for count in range(len(refs) + 1):
        for group in mesh.groups(refs[:count]):
            assert all(tuple(group_of(mesh, rank, refs[:count])) == group for rank in group)


# Detection of mismatched steps -------------------------------------------------------------------------------------


def changed(lowered: list[Lowered], rank: int, index: int, step: Any) -> list[Lowered]:
    steps = list(lowered[rank].steps)
    steps[index : index + 1] = [] if step is None else [step]
    return [program._replace(steps=tuple(steps)) if r == rank else program for r, program in enumerate(lowered)]


def test_mismatched_calls_between_ranks_are_detected() -> None:
    lowered = lowered_on(node("all_gather", (9, 5), (9, 20), **X, dim=1), LINE)
    call = lowered[2].steps[0]
    assert isinstance(call, Group)
    wrong = [
        replace(call, count=call.count - 1), replace(call, dtype="i8"), replace(call, kind="all_to_all"), replace(call, root=4),
        replace(call, axes=()), replace(call, target=call.target.rows(0, 0, 3)), replace(call, source=call.source.rows(1, 0, 2)), None,
    ]  # fmt: skip
    assert check_lowered(lowered, LINE, FIRST_RANK) == []
    for step in wrong:
        assert check_lowered(changed(lowered, 2, 0, step), LINE, FIRST_RANK), step
    assert check_lowered([lowered[0]._replace(scratch_bytes=999), *lowered[1:]], LINE)
    small = [program._replace(scratch_bytes=program.scratch_bytes - 1) for program in lowered]
    assert "of scratch" in check_lowered(small, LINE)[0]


def test_unmatched_messages_are_detected() -> None:
    lowered = lowered_on(node("shift", (8, 5), (8, 5), **X, shift_axis="x", offset=1, rotate=True), LINE)
    messages = lowered[1].steps[0]
    assert isinstance(messages, Messages) and check_lowered(lowered, LINE, FIRST_RANK) == []
    (sent,), (received,) = messages.sends, messages.receives
    wrong = [
        replace(messages, sends=()), replace(messages, receives=()), replace(messages, sends=(sent._replace(peer=3),)),
        replace(messages, receives=(received._replace(box=received.box.rows(0, 0, 3)),)), replace(messages, sends=(sent, sent)),
        replace(messages, axes=()), replace(messages, receives=(received._replace(box=received.box._replace(buffer=OPERAND)),)), None,
    ]  # fmt: skip
    for step in wrong:
        assert check_lowered(changed(lowered, 1, 0, step), LINE, FIRST_RANK), step
    outside = [replace(messages, axes=("b",)) for messages in [messages]]
    assert check_lowered([Lowered((outside[0],), 0) for _ in range(6)], GRID)


def mutated(rng: np.random.Generator, step: Messages) -> Messages:
    """Return a copy of `step` in which one random message is dropped, duplicated, shortened or redirected."""
    side = "sends" if step.sends and (not step.receives or rng.random() < 0.5) else "receives"
    listed = list(getattr(step, side))
    index = int(rng.integers(len(listed)))
    message, choice = listed[index], int(rng.integers(4))
    box = message.box.rows(0, 0, message.box.shape[0] - 1) if message.box.shape else message.box._replace(dtype="c128")
    changes = [[], [message, message], [message._replace(box=box)], [message._replace(peer=message.peer + 1)]]
    listed[index : index + 1] = changes[choice]
    return replace(step, **{side: tuple(listed)})


def test_random_message_mutations_are_detected() -> None:
    detected = 0
    for number in range(300):
        rng = np.random.default_rng((8, number))
        case = random_case(rng)
        lowered = lowered_on(case.node, case.mesh)
        positions = [(rank, step_index) for rank, program in enumerate(lowered) for step_index, step in enumerate(program.steps)
                  if isinstance(step, Messages) and (step.sends or step.receives)]  # fmt: skip
        if positions:
            rank, step_index = positions[int(rng.integers(len(positions)))]
            step = lowered[rank].steps[step_index]
            assert isinstance(step, Messages)
            assert check_lowered(changed(lowered, rank, step_index, mutated(rng, step)), case.mesh, FIRST_RANK), str(
                case
            )
            detected += 1
    assert detected > 100


def test_mismatched_boxes_and_written_operands_are_detected() -> None:
    box, other = dense(OPERAND, "f32", (4,)), dense(RESULT, "f32", (4,))
    for step in (Copy(box.rows(0, 0, 3), other), Fill(box, 0), Reduce((other.rows(0, 0, 3),), other, "sum")):
        assert check_lowered([Lowered((step,), 0)] * 4, LINE)


def test_deadlocked_or_mismatched_ranks_are_rejected() -> None:
    box = dense(RESULT, "f32", (4,))
    lone = Messages((), (Message(1, box),), ("x",))
    memory = [HostBuffers({OPERAND: np.zeros(16, np.uint8), RESULT: np.zeros(16, np.uint8)}) for _ in range(4)]
    with pytest.raises(RuntimeFailure, match="never sends"):
        run_lowered([Lowered((lone,), 0)] * 4, memory, LINE, Wires())
    call = Group("all_reduce", "sum", "f32", 4, dense(OPERAND, "f32", (4,)), box, ("x",))
    other = [Lowered((replace(call, count=rank),), 0) for rank in range(4)]
    with pytest.raises(RuntimeFailure, match="different calls"):
        run_lowered(other, memory, LINE, Wires())
    wires = Wires()
    wires.send(1, 0, np.zeros(3, np.uint8))
    with pytest.raises(RuntimeFailure, match="3 bytes"):
        run_lowered([Lowered((lone,), 0)] * 4, memory, LINE, wires)


def test_box_offsets_and_contiguity() -> None:
    box = dense(SCRATCH, "f32", (2, 3, 4), 10)
    assert box.is_contiguous and (box.byte_offset, box.byte_end) == (40, 40 + 96)
    assert not box.rows(1, 0, 2).is_contiguous and box.rows(0, 1, 2).rows(1, 1, 3).is_contiguous
    assert box.rows(2, 1, 2).byte_end == 40 + 4 * (12 + 8 + 1 + 1)
    back = Box(SCRATCH, "f32", 16, (2, 5), (-16, 3))  # a reversed dim has a negative stride
    assert (back.byte_start, back.byte_offset, back.byte_end) == (0, 64, 4 * (16 + 12 + 1))
    assert Box(SCRATCH, "f32", 3, (0, 2), (9, 9)).byte_end == 12 and Box(SCRATCH, "i1", 3, (), ()).is_contiguous


def test_operands_of_group_call_use_disjoint_scratch() -> None:
    """Calls that are launched together are packed into disjoint scratch, in the order of the operands."""
    kinds = [TensorType((2, 5), "f32"), TensorType((1, 3), "f32")]
    whole = [TensorType((2, 20), "f32"), TensorType((1, 12), "f32")]
    attrs = {"axes": ("x",), "dim": 1}
    (lowered, *_) = lowered_on(Node("all_gather", [*map(Value, kinds)], [*map(Value, whole)], attrs), LINE)
    groups = [step for step in lowered.steps if isinstance(step, Group)]
    assert [(step.source.buffer.number, step.target.buffer) for step in groups] == [
        (0, RESULT), (0, RESULT), (1, BufferRef("result", 1))
    ]  # fmt: skip
    sums = Node("all_reduce", [*map(Value, kinds)], [*map(Value, kinds)], {"axes": ("x",), "kind": "xor"})
    for value in (*sums.operands, *sums.results):
        value.type = TensorType(value.type.shape, "i32")
    (packed, *_) = lowered_on(sums, LINE)
    used = [(box.byte_start, box.byte_end) for step in packed.steps if isinstance(step, Messages)
            for box in (message.box for message in step.receives) if box.buffer == SCRATCH]  # fmt: skip
    assert len(used) == len(set(used)) == 6 and max(end for _, end in used) <= packed.scratch_bytes


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "bf16"])
@pytest.mark.parametrize("kind", ["max", "min"])
def test_float_max_and_min_do_not_use_nccl(kind: str, dtype: str) -> None:
    """NCCL's max and min drop NaN. Sums of floats, and max and min of integers, use NCCL."""
    assert native_reduction(kind, dtype, dtype) is None
    assert native_reduction(kind, "i32", "i32") is not None and native_reduction("sum", "f32", "f32") is not None
    assert native_reduction("sum", "bf16", "f32") is None, "the result has another type"
