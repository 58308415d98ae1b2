"""Tests that faults seeded in plans, lowered collectives and captures are detected.

Messages name the collective, the rank or the buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from meshgen.ccl.steps import Copy, Group, Lowered, Messages, Step
from meshgen.emulator.faults import DeviceFault
from meshgen.errors import MeshgenError, RuntimeFailure, ScheduleError
from meshgen.mesh import Mesh
from meshgen.runtime.cuda import graph
from meshgen.runtime.cuda.collectives import RankWork
from meshgen.runtime.cuda.execute import Executor
from meshgen.runtime.module import LoadedModule
from meshgen.runtime.plan import Item, Schedule
from meshgen.runtime.validation.checker import check
from tests.programs import mlp
from tests.runtime.cuda import seed_faults
from tests.runtime.cuda.steps import arguments, filled, gpus, planned, programs
from tests.runtime.cuda.test_execute import MLIR

WITH_EVENTS = ["a06_mlp_sequence_parallel", "b11_summa", "a09_mlp_dp_tp"]


@pytest.fixture(scope="module")
def module(tmp_path_factory: pytest.TempPathFactory) -> LoadedModule:
    return planned(mlp(), tmp_path_factory.mktemp("mlp"))


def outcome(module: LoadedModule, change: Callable[[Schedule], Schedule], seed: int = 0) -> MeshgenError | None:
    """Run a step with the plan that `change` returns. Return its error, or None if it succeeds."""
    executor = Executor(programs(module, change), gpus(module, seed))
    try:
        executor.run(filled(module, arguments(module)))
    except MeshgenError as error:
        return error
    return None


def without_wait(plan: Schedule, index: int, event: int) -> Schedule:
    items = list(plan.items)
    items[index] = replace(items[index], waits=tuple(wait for wait in items[index].waits if wait != event))
    return replace(plan, items=tuple(items))


def is_proven(plan: Schedule, mesh: Mesh) -> bool:
    """Whether the plan checker accepts the plan."""
    try:
        check(plan, mesh)
    except ScheduleError:
        return False
    return True


@pytest.mark.parametrize("name", WITH_EVENTS)
def test_every_removed_wait_is_a_race(name: str, tmp_path: Path) -> None:
    """A removed wait is either a race, or redundant according to a proof of the plan checker."""
    module = planned(str(MLIR / f"{name}.mlir"), tmp_path)
    waits = [(number, event) for number, item in enumerate(module.schedule.items) for event in item.waits]
    assert waits
    for number, event in waits:
        changed = without_wait(module.schedule, number, event)
        error = outcome(module, lambda plan, changed=changed: changed, seed=number)
        if is_proven(changed, module.mesh):
            assert error is None
        else:
            assert isinstance(error, DeviceFault) and error.kind == "race", (number, event)
            assert "no stream, event or graph edge orders them" in str(error) and "of rank" in str(error)


def test_race_message_names_both_launches_and_the_buffer(module: LoadedModule) -> None:
    plan = module.schedule
    number, item = next((n, item) for n, item in enumerate(plan.items) if item.is_collective and item.waits)
    changed = without_wait(plan, number, item.waits[0])
    message = str(outcome(module, lambda plan: changed))
    assert f"'{plan.buffers[item.inputs[0]].name}'" in message
    assert "kernel '" in message and "all_reduce (sum) of 48 f32 by rank" in message


def executor_of(module: LoadedModule) -> Executor:
    return Executor(programs(module), gpus(module))


def collective_works(executor: Executor) -> Iterator[dict[int, RankWork]]:
    """Yield the work of all ranks for each collective."""
    yield from executor.parts[0].frame.works.values()


def change_step(work: RankWork, change: Callable[[Step], Step]) -> None:
    work.lowered = Lowered(tuple(change(step) for step in work.lowered.steps), work.lowered.scratch_bytes)


def failure(executor: Executor, module: LoadedModule) -> str:
    with pytest.raises(RuntimeFailure) as caught:
        executor.run(filled(module, arguments(module)))
    return str(caught.value)


CHANGED_CALLS: dict[str, tuple[Callable[[Group], Group], str]] = {
    "count": (lambda step: replace(step, count=step.count - 1), "disagree"),
    "element type": (lambda step: replace(step, dtype="i32"), "disagree"),
    "reduction": (lambda step: replace(step, reduction="max"), "disagree"),
    "kind": (lambda step: replace(step, kind="broadcast"), "disagree"),
}


@pytest.mark.parametrize("name", CHANGED_CALLS)
@pytest.mark.parametrize("rank", range(4))
def test_mismatched_nccl_call_of_one_rank_is_detected(name: str, rank: int, module: LoadedModule) -> None:
    change, message_part = CHANGED_CALLS[name]
    executor = executor_of(module)
    (works,) = collective_works(executor)
    change_step(works[rank], lambda step: change(step) if isinstance(step, Group) else step)
    message = failure(executor, module)
    assert message_part in message and "collective 0 of axes y" in message


def test_missing_nccl_call_of_one_rank_is_a_deadlock(module: LoadedModule) -> None:
    executor = executor_of(module)
    (works,) = collective_works(executor)
    works[2].lowered = Lowered((), 0)
    message = failure(executor, module)
    assert "deadlock" in message and "by rank 1 of axes y, group of rank 2 waits for rank 0" in message


def test_swapped_collectives_on_one_rank_are_detected(tmp_path: Path) -> None:
    module = planned(str(MLIR / "a06_mlp_sequence_parallel.mlir"), tmp_path)
    executor = executor_of(module)
    gather, scatter = collective_works(executor)
    gather[0], scatter[0] = scatter[0], gather[0]
    message = failure(executor, module)
    assert "disagree" in message and "rank 0: reduce_scatter (sum)" in message and ": all_gather of" in message


def changed_message(step: Step, change: Callable[[Messages], Messages]) -> Step:
    return change(step) if isinstance(step, Messages) and step.sends else step


def other_first(step: Messages, **changes: object) -> Messages:
    """Return `step` with `changes` applied to the first message that it sends."""
    return replace(step, sends=(step.sends[0]._replace(**changes), *step.sends[1:]))


@pytest.mark.parametrize("name, change, message_part", [
    ("peer", lambda step: other_first(step, peer=0), "waits for rank"),
    ("none", lambda step: replace(step, sends=step.sends[1:]), "waits for rank"),
    ("size", lambda step: other_first(step, box=step.sends[0].box.flat(0, 1)), "disagree"),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_changed_message_of_one_rank_is_detected(
    name: str, change: Callable[[Messages], Messages], message_part: str, tmp_path: Path
) -> None:
    module = planned(str(MLIR / "c37_three_cycle.mlir"), tmp_path)
    executor = executor_of(module)
    works = next(w for w in collective_works(executor) if any(isinstance(s, Messages) for s in w[1].lowered.steps))
    change_step(works[1], lambda step: changed_message(step, change))
    message = failure(executor, module)
    assert message_part in message and "of all ranks" in message, name


def test_stream_not_joined_to_capture_is_detected(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = executor_of(module)
    monkeypatch.setattr(graph, "join", lambda origin, others, key: None)
    message = failure(executor, module)
    assert "MG0604" in message and "cuStreamEndCapture failed with 904: CUDA_ERROR_STREAM_CAPTURE_UNJOINED" in message


def test_stream_not_forked_into_capture_is_detected(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = executor_of(module)
    monkeypatch.setattr(graph, "fork", lambda origin, others, key: None)
    assert "MG0604" in failure(executor, module)


def test_allocation_during_capture_is_detected(module: LoadedModule, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = executor_of(module)
    copy = executor.devices[0].launch
    monkeypatch.setattr(
        executor.devices[0],
        "launch",
        lambda *args, **how: (executor.devices[0].allocate(8, "more"), copy(*args, **how)),
    )
    assert "cuMemAlloc failed with 900: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED" in failure(executor, module)


def test_write_past_arena_end_is_detected(tmp_path: Path) -> None:
    """A buffer that reaches the end of the arena is followed by a guard band."""
    module = planned(str(MLIR / "c08_swap.mlir"), tmp_path)
    plan = module.schedule
    last = max(plan.buffers, key=lambda buffer: buffer.end)
    moved = [b._replace(offset=b.offset + 4096) if b is last else b for b in plan.buffers]
    changed = replace(plan, buffers=tuple(moved))
    with pytest.raises(DeviceFault, match="address"):
        executor = Executor(programs(module, lambda plan: changed), gpus(module))
        executor.run(filled(module, arguments(module)))


def item_of(plan: Schedule, op: str) -> Item:
    return next(item for item in plan.items if item.op == op)


def test_removed_copy_changes_results(tmp_path: Path) -> None:
    """The target of the copy is never written, so it contains the poison pattern."""
    module = planned(str(MLIR / "c17_move_both.mlir"), tmp_path)
    executor = executor_of(module)
    for works in collective_works(executor):
        work = works[0]
        remaining = tuple(step for step in work.lowered.steps if not isinstance(step, Copy))
        if len(remaining) < len(work.lowered.steps):
            work.lowered = Lowered(remaining, work.lowered.scratch_bytes)
            break
    (results,) = executor.run(filled(module, arguments(module)))
    expected = module.run(arguments(module))
    assert any(result.tobytes() != other.tobytes() for result, other in zip(results, expected, strict=True))


def test_random_faults_are_detected(tmp_path: Path) -> None:
    verdicts = seed_faults.run(30, 1, [planned(text, tmp_path) for text in seed_faults.OWN])
    assert len(verdicts) >= len(seed_faults.KINDS)
    assert not [fault for fault, verdict in verdicts if verdict == "unseen"]
