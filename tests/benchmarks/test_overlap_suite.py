"""The floor under all orders of a step, which tables of the benchmark hold steps against."""

from __future__ import annotations

import itertools
import random

import pytest

from meshgen.benchmarks.overlap import floor, measured
from meshgen.codegen.scheduling.timeline import Task, start_times
from meshgen.runtime.plan import COMMUNICATION, COMPUTE


def _shortest(tasks: list[Task]) -> float:
    """By trial of all orders."""
    found: list[float] = []
    for order in itertools.permutations(range(len(tasks))):
        place = {number: p for p, number in enumerate(order)}
        if all(place[need] < place[n] for n, task in enumerate(tasks) for need in task.needs):
            found.append(start_times(tasks, order)[1])
    return min(found)


def test_no_order_is_below_the_floor() -> None:
    rng, reached = random.Random(0), 0
    for _ in range(60):
        tasks = [
            Task(rng.choice([COMPUTE, COMMUNICATION]), rng.choice([1, 2, 3, 5]), tuple(sorted(rng.sample(range(n), rng.randint(0, min(n, 2))))))
            for n in range(6)
        ]  # fmt: skip
        least = _shortest(tasks)
        assert floor(tasks) <= least
        reached += floor(tasks) == least
    assert reached >= 50


@pytest.mark.parametrize("layers", [1, 3])
def test_what_needs_all_that_was_gathered_comes_behind_it(layers: int) -> None:
    """Weights of each layer are gathered (5 s each) and used (1 s); then come gradients, of 5 s beside a path of 2 s for each layer."""
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


def test_a_record_holds_the_step_against_its_bounds() -> None:
    found = measured("one sum", PROGRAM)
    assert found["ranks"] == 4 and 0 <= found["hidden"] <= 1
    assert found["floor_seconds"] <= found["step_seconds"] <= found["serial_seconds"]
    assert found["over_floor"] >= 1 and found["step_seconds"] <= found["whole_seconds"]
