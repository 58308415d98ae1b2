"""Tests of forward-backward improvement: schedules are shifted late and then early again."""

from __future__ import annotations

import itertools
import random

import pytest

from meshgen.codegen.scheduling.forward_backward import justified
from meshgen.codegen.scheduling.orders import list_order
from meshgen.codegen.scheduling.schedule import priorities
from meshgen.codegen.scheduling.timeline import Task, least_seconds, start_times
from meshgen.runtime.plan import COMMUNICATION, COMPUTE, STREAMS


def random_tasks(rng: random.Random, count: int, most: int) -> list[Task]:
    """Return random tasks, some of zero duration, with at most `most` predecessors each."""
    tasks: list[Task] = []
    for index in range(count):
        needs = rng.sample(range(index), rng.randint(0, min(index, most)))
        tasks.append(Task(rng.randrange(STREAMS), rng.choice([0, 0.1, 0.3, 2]), tuple(sorted(needs))))
    return tasks


def test_kernel_is_delayed_for_a_more_urgent_one() -> None:
    tasks = [
        Task(COMPUTE, 1, ()), Task(COMMUNICATION, 3, (0,)), Task(COMMUNICATION, 1, (0,)),
        Task(COMPUTE, 2, (2,)), Task(COMMUNICATION, 2, (3,)), Task(COMPUTE, 3, ()),
    ]  # fmt: skip
    listed = [start_times(tasks, list_order(tasks, way).numbers) for way in priorities(tasks)]
    assert min(seconds for _, seconds in listed) == 8
    makespans = [start_times(tasks, order.numbers)[1] for _, order in justified(tasks, listed[0][0])]
    assert min(makespans) == least_seconds(tasks) == 7


@pytest.mark.parametrize("seed", range(20))
def test_tasks_are_issued_after_their_predecessors(seed: int) -> None:
    rng = random.Random(seed)
    tasks = random_tasks(rng, rng.randrange(1, 40), 3)
    start, _ = start_times(tasks, range(len(tasks)))
    for _, order in justified(tasks, start):
        position = {index: p for p, index in enumerate(order.numbers)}
        assert sorted(position) == list(range(len(tasks)))
        assert all(position[need] < position[index] for index, task in enumerate(tasks) for need in task.needs)


def test_lower_bound_holds_for_all_orders_and_is_often_tight() -> None:
    rng, reached = random.Random(1), 0
    for _ in range(60):
        tasks = random_tasks(rng, 6, 2)
        orders = [order for order in itertools.permutations(range(6)) if _is_allowed(tasks, order)]
        shortest = min(start_times(tasks, order)[1] for order in orders)
        assert least_seconds(tasks) <= shortest + 1e-12
        reached += least_seconds(tasks) >= shortest - 1e-12
    assert reached >= 50


def _is_allowed(tasks: list[Task], order: tuple[int, ...]) -> bool:
    return all(order.index(need) < order.index(n) for n, task in enumerate(tasks) for need in task.needs)


@pytest.mark.parametrize("seed", range(20))
def test_reversed_late_schedule_is_not_longer(seed: int) -> None:
    rng = random.Random(seed)
    tasks = random_tasks(rng, rng.randrange(5, 40), 3)
    start, seconds = start_times(tasks, range(len(tasks)))
    _, (_, reversed_order) = justified(tasks, start)
    assert start_times(tasks, reversed_order.numbers)[1] <= seconds + 1e-9


def test_priority_is_the_latest_start() -> None:
    """Check two independent chains of tasks: 1 s then 3 s, and 2 s then 0.5 s.

    The longer chain has no slack. Tasks are ordered by how late they may start.
    """
    tasks = [Task(COMPUTE, 2, ()), Task(COMMUNICATION, 1, ()), Task(COMMUNICATION, 3, (1,)), Task(COMPUTE, 0.5, (0,))]
    start, _ = start_times(tasks, range(4))
    (priority, _), _ = justified(tasks, start)
    assert sorted(range(4), key=priority) == [1, 2, 0, 3]
