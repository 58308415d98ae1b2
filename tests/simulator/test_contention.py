"""Tests of kernels that overlap collectives: each pair slows the kernel for the time of its overlap."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest

from meshgen.codegen.targets import predicted_machine
from meshgen.ir.graph import TensorType
from meshgen.machine.profiles import MACHINES
from meshgen.mesh import make_mesh
from meshgen.runtime.plan import COMMUNICATION, COMPUTE, NETWORK, Buffer, Item, Schedule
from meshgen.simulator.contention import issue_order, stretched
from meshgen.simulator.timeline import Conditions, Span, Timeline

SLOWDOWN = 0.35
MACHINE = replace(predicted_machine("cpu", MACHINES["dgx-h100"]), overlap_slowdown=SLOWDOWN)
MESH = replace(make_mesh({"x": 2, "y": 4}), machine=MACHINE)
SIZES = (0, 1 << 10, 1 << 20, 1 << 24)  # elements of the buffers that collectives reduce


def random_schedule(seed: int) -> Schedule:
    """Return random kernels and collectives on three streams with random waits, and a final loop of kernels."""
    rng = random.Random(seed)
    buffers = tuple(Buffer(f"b{n}", TensorType((size,), "f32"), "temporary", n, 0) for n, size in enumerate(SIZES))

    def item(index: int) -> Item:
        waits = tuple(sorted({rng.randrange(index) for _ in range(rng.randrange(3))})) if index else ()
        stream = rng.choice((COMPUTE, COMPUTE, COMMUNICATION, NETWORK))
        if stream == COMPUTE:
            seconds = rng.choice((2e-6, 20e-6, 200e-6, 1e-3))
            return Item("kernel", "k", {}, (), (), stream, waits, records=index, seconds=seconds)
        buffer = rng.randrange(len(buffers))
        attrs = {"axes": (rng.choice("xy"),), "reduction": "sum"}
        return Item("all_reduce", "", attrs, (buffer,), (buffer,), stream, waits, records=index)

    items = tuple(map(item, range(rng.randrange(1, 30))))
    body = tuple(Item("kernel", "k", {}, (), (), COMPUTE, seconds=50e-6) for _ in range(2))
    region = Schedule(body, (), 0, (), ())
    loop = Item("scan", "", {"trips": 9, "sliced": ()}, (), (), COMPUTE, regions=(region,))
    return Schedule((*items, loop), buffers, 0, (), ())


def played(plan: Schedule, conditions: Conditions | None = None) -> Timeline:
    timeline = Timeline(plan, MESH, conditions or Conditions(), range(MESH.size))
    for item in timeline.order:
        timeline.issue(item)
    return timeline


def work_done(kernel: Span, collectives: list[Span], rank: int) -> float:
    """Return the seconds of work that a kernel did between its start and its end on a rank, without the slowdown."""
    start, end = float(kernel.start[rank]), float(kernel.end[rank])
    pairs = [(float(span.start[rank]), float(span.end[rank])) for span in collectives]
    times = sorted({start, end, *(time for pair in pairs for time in pair if start < time < end)})
    return sum(
        (after - before) / (1 + SLOWDOWN * sum(began <= before and after <= ended for began, ended in pairs))
        for before, after in itertools.pairwise(times)
    )


@pytest.mark.parametrize("seed", range(40))
def test_kernel_slowdown_follows_overlapping_collectives(seed: int) -> None:
    slow = Conditions({3: 1.7}, {5: 2.5}) if seed % 2 else Conditions()
    timeline = played(random_schedule(seed), slow)
    collectives = [span for span in timeline.spans if span.item.is_collective]
    kernels = [span for span in timeline.spans if span.item.kernel]
    for kernel, rank in itertools.product(kernels, range(MESH.size)):
        own_seconds = kernel.item.seconds * slow.slow_devices.get(rank, 1.0)
        assert work_done(kernel, collectives, rank) == pytest.approx(own_seconds, rel=1e-9)


@pytest.mark.parametrize("seed", range(40))
def test_simulated_items_respect_streams_and_events(seed: int) -> None:
    plan = random_schedule(seed)
    spans = {id(span.item): span for span in played(plan, Conditions({1: 1.3})).spans}
    recorded = {item.records: spans[id(item)] for item in plan.items}
    for item in plan.items:
        assert all((recorded[event].end <= spans[id(item)].start + 1e-15).all() for event in item.waits)
    for stream in (COMPUTE, COMMUNICATION, NETWORK):
        stream_spans = [spans[id(item)] for item in plan.items if item.stream == stream]
        assert all((earlier.end <= later.start + 1e-15).all() for earlier, later in itertools.pairwise(stream_spans))


def test_launch_order_does_not_change_the_slowdown() -> None:
    """Check a collective that overlaps kernels. It is issued before, between or after them."""
    buffer = Buffer("b", TensorType((1 << 22,), "f32"), "temporary", 0, 0)
    gather = Item("all_reduce", "", {"axes": ("y",), "reduction": "sum"}, (0,), (0,), COMMUNICATION)
    kernels = [Item("kernel", "k", {}, (), (), COMPUTE, seconds=30e-6) for _ in range(6)]
    ends = set[float]()
    for position in range(7):
        items = (*kernels[:position], gather, *kernels[position:])
        ends.add(round(float(played(Schedule(items, (buffer,), 0, (), ())).end.max()), 12))
    assert len(ends) == 1 and ends.pop() > 6 * 30e-6


def test_loop_is_slowed_until_the_collective_ends() -> None:
    buffer = Buffer("b", TensorType((1 << 22,), "f32"), "temporary", 0, 0)
    gather = Item("all_reduce", "", {"axes": ("y",), "reduction": "sum"}, (0,), (0,), COMMUNICATION)
    body = Schedule((Item("kernel", "k", {}, (), (), COMPUTE, seconds=5e-6),), (), 0, (), ())
    loop = Item("scan", "", {"trips": 200, "sliced": ()}, (), (), COMPUTE, regions=(body,))
    timeline = played(Schedule((gather, loop), (buffer,), 0, (), ()))
    (beside,) = (float(span.end[0]) for span in timeline.spans if span.item.is_collective)
    slower = SLOWDOWN / (1 + SLOWDOWN) * beside
    assert timeline.computing[0] == pytest.approx(200 * 5e-6 + slower, rel=1e-9)
    assert len(timeline.spans) < 100, "iterations after the collective are extrapolated"


def test_two_overlapping_collectives_slow_a_kernel_twice() -> None:
    start, ends = np.zeros(1), np.full(1, 9.0)
    overlapping = [(start, ends), (start + 3.0, ends)]
    assert stretched(start, np.full(1, 1.0), overlapping, 1.0) == pytest.approx(2.0)
    assert stretched(start, np.full(1, 2.5), overlapping, 1.0) == pytest.approx(6.0)
    assert stretched(start, np.full(1, 4.5), overlapping, 1.0) == pytest.approx(10.0)
    assert stretched(start + 20, np.full(1, 4.5), overlapping, 1.0) == pytest.approx(24.5)


def test_issue_order_puts_collectives_after_their_last_kernel() -> None:
    kernels = [Item("kernel", name, {}, (), (), COMPUTE, records=n) for n, name in enumerate("abc")]
    late, early = (Item("all_reduce", "", {"axes": ()}, (), (), s, waits=w) for s, w in ((1, (1,)), (2, (0,))))
    chained = Item("all_gather", "", {"axes": ()}, (), (), 1)
    order = issue_order([*kernels, late, early, chained])
    assert order == [kernels[0], early, kernels[1], late, chained, kernels[2]]
