"""The overlap suite compares the planned step with a lower bound: the shortest step over all launch orders."""

from __future__ import annotations

import itertools
import random

import pytest

from meshgen.benchmarks.overlap import floor, overlap_record
from meshgen.codegen.scheduling.timeline import Task, start_times
from meshgen.runtime.plan import COMMUNICATION, COMPUTE


def _shortest_step_seconds(tasks: list[Task]) -> float:
    """Return the shortest step time over all orders of `tasks`."""
    step_seconds: list[float] = []
    for order in itertools.permutations(range(len(tasks))):
        positions = {number: p for p, number in enumerate(order)}
        if all(positions[need] < positions[n] for n, task in enumerate(tasks) for need in task.needs):
            step_seconds.append(start_times(tasks, order)[1])
    return min(step_seconds)


def test_no_order_is_faster_than_the_floor() -> None:
    rng, reached = random.Random(0), 0
    for _ in range(60):
        tasks = [
            Task(rng.choice([COMPUTE, COMMUNICATION]), rng.choice([1, 2, 3, 5]), tuple(sorted(rng.sample(range(n), rng.randint(0, min(n, 2))))))
            for n in range(6)
        ]  # fmt: skip
        least = _shortest_step_seconds(tasks)
        assert floor(tasks) <= least
        reached += floor(tasks) == least
    assert reached >= 50


@pytest.mark.parametrize("layers", [1, 3])
def test_floor_places_gradients_after_the_last_gather(layers: int) -> None:
    """Each layer gathers its weights for 5 s and computes for 1 s. Then the gradients of each layer take 5 s, beside a
    critical path of 2 s.
    """
    tasks: list[Task] = []
    last: tuple[int, ...] = ()
    for _ in range(layers):
        tasks += [Task(COMMUNICATION, 5.0, ()), Task(COMPUTE, 1.0, (*last, len(tasks)))]
        last = (len(tasks) - 1,)
    for _ in range(layers):
        tasks += [Task(COMPUTE, 5.0, last), Task(COMPUTE, 2.0, last)]
        last = (len(tasks) - 1,)
    assert floor(tasks) == 5 * layers + 1 + 7 * layers


PROGRAM = """shard.grid @m(shape = 4)
func.func @main(%x: tensor<512x1024xbf16>, %w: tensor<1024x1024xbf16>) -> tensor<512x1024xbf16> {
  %x0 = shard.sharding @m split_axes = [[], [0]] : !shard.sharding
  %x1 = shard.shard %x to %x0 annotate_for_users : tensor<512x1024xbf16>
  %0 = stablehlo.dot_general %x1, %w, contracting_dims = [1] x [0] : (tensor<512x1024xbf16>, tensor<1024x1024xbf16>) -> tensor<512x1024xbf16>
  %1 = stablehlo.tanh %0 : tensor<512x1024xbf16>
  return %1 : tensor<512x1024xbf16>
}
"""


def test_overlap_record_compares_the_step_with_its_bounds() -> None:
    overlap = overlap_record("one sum", PROGRAM)
    assert overlap["ranks"] == 4 and 0 <= overlap["hidden"] <= 1
    assert overlap["floor_seconds"] <= overlap["step_seconds"] <= overlap["serial_seconds"]
    assert overlap["over_floor"] >= 1 and overlap["step_seconds"] <= overlap["whole_seconds"]
