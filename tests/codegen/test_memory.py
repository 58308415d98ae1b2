from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from meshgen.codegen.scheduling import memory
from meshgen.codegen.scheduling.memory import Lifetime, clocks, interferences, place
from meshgen.runtime.plan import ALIGNMENT, STREAMS, aligned


def chain(count: int, nbytes: int) -> list[Lifetime]:
    """Buffer i is written by task i and read by task i + 1, all on stream 0."""
    return [Lifetime(nbytes, (i, 0, 0), (i + 2, 0, 0), False) for i in range(count)]


def test_chain_of_buffers_needs_space_for_two():
    offsets, total = place(chain(10, 1000))
    assert total == 2 * aligned(1000)
    assert all(a != b for a, b in itertools.pairwise(offsets))


def test_inputs_and_constants_are_never_shared():
    lives = [Lifetime(100, None, (1, 0, 0), True), *chain(4, 100), Lifetime(100, (9, 0, 0), (10, 0, 0), True)]
    offsets, _ = place(lives)
    assert offsets[0] == 0
    assert 0 not in offsets[1:]


def test_buffers_of_unordered_streams_do_not_alias():
    # Task 1 of stream 1 reads the first buffer. Task 2 of stream 0 writes the second buffer and does not wait for that
    # read.
    first = Lifetime(10, (0, 0, 0), (1, 1, 0), False)
    racing = Lifetime(10, (1, 0, 0), (2, 0, 0), False)
    ordered = Lifetime(10, (1, 1, 0), (2, 0, 0), False)
    assert place([first, racing])[1] == 2 * ALIGNMENT
    assert place([first, ordered])[1] == ALIGNMENT


def test_empty_buffers_take_no_space():
    assert place([Lifetime(0, None, (0, 0, 0), True), Lifetime(0, (0, 0, 0), (1, 0, 0), False)]) == ([0, 0], 0)


def test_vector_clocks_advance_with_streams_and_events():
    start, end = clocks([0, 1, 0, 1], [[], [0], [], [2]])
    assert start == [(0, 0, 0), (1, 0, 0), (1, 0, 0), (2, 1, 0)]
    assert end == [(1, 0, 0), (1, 1, 0), (2, 0, 0), (2, 2, 0)]


def ends_before(left: Lifetime, right: Lifetime) -> bool:
    """Whether every access to `left` happens before `right` is written."""
    if left.stays or right.born is None:
        return False
    return all(last_access <= written_after for last_access, written_after in zip(left.last, right.born, strict=True))


def random_lifetimes(rng: random.Random, count: int) -> list[Lifetime]:
    """Return a random lifetime for each of `count` storages.

    Storage i is written by task i. Tasks run on random streams, wait for random tasks, and access earlier storages.
    """
    streams = [rng.randrange(STREAMS) for _ in range(count)]
    waits = [sorted(rng.sample(range(n), min(n, rng.choice([0, 0, 1])))) for n in range(count)]
    starts, ends = clocks(streams, waits)
    lives: list[Lifetime] = []
    for n in range(count):
        last = [0] * STREAMS
        for toucher in (n, *(t for t in range(n + 1, min(n + 12, count)) if rng.random() < 0.2)):
            last[streams[toucher]] = ends[toucher][streams[toucher]]
        lives.append(Lifetime(rng.choice([0, 1, 255, 256, 257, 5000]), starts[n], tuple(last), rng.random() < 0.1))
    return lives


@pytest.mark.parametrize("seed", range(20))
def test_interferences_are_exactly_the_unordered_lifetimes(seed: int):
    rng = random.Random(seed)
    lives = random_lifetimes(rng, 60)
    rng.shuffle(lives)  # program order is then not issue order
    conflicts = interferences(lives, range(len(lives)))
    for i, a in enumerate(lives):
        expected = {j for j, b in enumerate(lives) if i != j and not (ends_before(a, b) or ends_before(b, a))}
        assert set(conflicts[i].tolist()) == expected
        assert len(conflicts[i]) == len(expected)


@pytest.mark.parametrize("seed", range(20))
def test_random_placements_never_overlap_live_storages(seed: int):
    lives = random_lifetimes(random.Random(seed), 60)
    lives.insert(0, Lifetime(700, None, (9, 0, 0), True))
    offsets, total = place(lives)
    for i, a in enumerate(lives):
        assert offsets[i] + a.nbytes <= total
        for j, b in enumerate(lives[:i]):
            alive = not (ends_before(a, b) or ends_before(b, a))
            apart = offsets[i] + a.nbytes <= offsets[j] or offsets[j] + b.nbytes <= offsets[i]
            assert apart or not alive or not a.nbytes or not b.nbytes


@pytest.mark.parametrize(
    ("lives", "best"),
    [
        ([(1, 0, 3), (1, 1, 6), (4, 4, 6)], 5),  # found by placing the biggest first; in birth order: 6
        ([(3, 0, 4), (2, 1, 3), (3, 2, 3), (4, 3, 5)], 8),  # found by another order than biggest first, which gives 9
        # found by placing from the bottom up; biggest first gives 12
        ([(2, 4, 8), (3, 5, 9), (4, 2, 4), (4, 1, 6), (2, 4, 7)], 11),
        # found by the second attempt from the bottom up; the first gives 7
        ([(2, 3, 6), (4, 6, 7), (3, 0, 4), (2, 4, 7), (1, 2, 6)], 6),
    ],
    ids=["biggest-first", "not-biggest-first", "bottom-up", "highest-first"],
)
def test_smallest_of_several_placements_is_chosen(lives: list[tuple[int, int, int]], best: int):
    unit = aligned(1)
    _, total = place([Lifetime(size * unit, (born, 0, 0), (last, 0, 0), False) for size, born, last in lives])
    assert total == best * unit


def test_fewer_placements_are_tried_if_more_storages_interfere(monkeypatch: pytest.MonkeyPatch):
    placed, place_from_bottom = list[int](), memory._place_from_bottom

    def counted(*args: Any) -> Any:
        placed.append(len(args[3]))
        return place_from_bottom(*args)

    monkeypatch.setattr(memory, "_place_from_bottom", counted)
    rng = random.Random(3)
    for count in (60, 600):
        lasts = [n + 1 + rng.randrange(count) for n in range(count)]
        place([Lifetime(rng.randrange(1, 9999), (n, 0, 0), (last, 0, 0), False) for n, last in enumerate(lasts)])
    assert placed.count(600) == 1 < placed.count(60)


def test_placement_work_grows_with_live_storages_not_all_pairs(monkeypatch: pytest.MonkeyPatch):
    """Count the comparisons of storages by the lookup of candidates (in blocks of `LOOKS`) and by the search for gaps."""
    compared, in_gaps, count = 0, 0, 20 * memory.LOOKS
    used_after, lowest_gap = memory._used_after, memory._lowest_gap

    def counted_after(last: Any, born: Any) -> Any:
        nonlocal compared
        compared += len(last) * len(born)
        return used_after(last, born)

    def counted_gap(size: int, base: int, starts: Any, ends: Any) -> int:
        nonlocal in_gaps
        in_gaps += len(starts)
        return lowest_gap(size, base, starts, ends)

    monkeypatch.setattr(memory, "_used_after", counted_after)
    monkeypatch.setattr(memory, "_lowest_gap", counted_gap)
    place([*[Lifetime(64, None, (1, 0, 0), True)] * 500, *chain(count, 1000)], 0)
    # Each storage is compared with its own block, and with earlier storages that are still alive.
    assert count <= compared <= 2 * memory.LOOKS * count
    assert 0 < in_gaps <= 2 * count  # at most one neighbor on each side of a storage


@pytest.mark.parametrize("seed", range(20))
def test_arena_is_not_smaller_than_its_lower_bound(seed: int):
    """Check the lower bound for random lifetimes, and that it is exact for storages that are alive one at a time."""
    lives = [Lifetime(700, None, (9, 0, 0), True), *random_lifetimes(random.Random(seed), 60)]
    assert 0 < memory.least_bytes(lives) <= place(lives)[1]
    one_at_a_time = [Lifetime(512, (n, 0, 0), (n + 1, 0, 0), False) for n in range(5)]
    assert memory.least_bytes(one_at_a_time) == place(one_at_a_time)[1] == 512


def test_storage_is_placed_in_a_gap_of_its_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that biggest-first placement puts the last storage into the gap that the second storage left."""
    monkeypatch.setattr(memory, "_place_from_bottom", lambda *_: pytest.fail("the first order leaves no gap"))
    times = [(3, 0, 9), (2, 0, 4), (2, 3, 9), (2, 5, 9)]
    lives = [Lifetime(units * ALIGNMENT, (born, 0, 0), (last, 0, 0), False) for units, born, last in times]
    assert place(lives) == ([0, 3 * ALIGNMENT, 5 * ALIGNMENT, 3 * ALIGNMENT], 7 * ALIGNMENT)
