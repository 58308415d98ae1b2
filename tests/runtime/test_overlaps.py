"""Tests of conflicts between buffers that share bytes: a sweep over time finds the same as comparing all pairs."""

from __future__ import annotations

import itertools
import random

import pytest

from meshgen.runtime.validation.overlaps import Clock, Use, conflicts


def made_up(seed: int) -> tuple[list[Use], list[Clock]]:
    """Return random buffers of up to 8 bytes, and the happens-before clocks of the items on two streams that use them."""
    rng = random.Random(seed)
    done: list[Clock] = []
    streams: list[int] = []
    last = [-1, -1]
    for item in range(8):
        stream, clock = rng.randrange(2), [-1, -1]
        for source in (last[stream], rng.choice([-1, *range(item)])):
            if source >= 0:
                clock = list(map(max, clock, done[source]))
                clock[streams[source]] = max(clock[streams[source]], source)
        streams.append(stream)
        done.append((clock[0], clock[1]))
        last[stream] = item
    uses: list[Use] = []
    for buffer in range(rng.randrange(2, 7)):
        start, writer = rng.randrange(8), rng.choice([None, *range(8)])
        touched = [-1, -1]
        for item in {*rng.sample(range(8), 2), *([] if writer is None else [writer])}:
            if writer is None or item >= writer:
                touched[streams[item]] = max(touched[streams[item]], item)
        uses.append(
            Use(buffer, start, start + rng.randrange(1, 8), writer, (touched[0], touched[1]), rng.random() < 0.2)
        )
    return uses, done


def is_over(use: Use, other: Use, done: list[Clock]) -> bool:
    if use.stays or other.writer is None:
        return False
    return all(last <= clock for last, clock in zip(use.touched, done[other.writer], strict=True))


def test_conflict_sweep_agrees_with_all_pairs() -> None:
    conflict_free = 0
    for seed in range(3000):
        uses, done = made_up(seed)
        pairs = itertools.combinations([use for use in uses if use.writer is None or use.touched], 2)
        wrong = [
            (a, b)
            for a, b in pairs
            if a.start < b.end and b.start < a.end and not is_over(a, b, done) and not is_over(b, a, done)
        ]
        conflict = list(conflicts(uses, done))
        assert bool(wrong) == bool(conflict), seed
        conflict_free += not wrong
    assert 300 < conflict_free < 2700


def test_partially_overwritten_buffer_keeps_remaining_bytes() -> None:
    done: list[Clock] = [(-1, -1), (0, -1), (1, -1)]
    whole, middle = Use(0, 0, 8, 0, (2, -1), False), Use(1, 3, 5, 1, (1, -1), False)
    right = Use(2, 6, 8, 2, (2, -1), False)
    assert list(conflicts([whole, middle, right], done)) == [(whole, middle), (whole, right)]


@pytest.mark.parametrize("count", [20000])
def test_conflict_sweep_is_fast_for_many_buffers_in_same_bytes(count: int) -> None:
    """A comparison of all pairs would take minutes."""
    uses = [Use(n, 0, 64, n, (n, -1), False) for n in range(count)]
    assert list(conflicts(uses, [(n - 1, -1) for n in range(count)])) == []
