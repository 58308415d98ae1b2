from __future__ import annotations

import itertools
import random

from meshgen.codegen.memory import Lifetime, clocks, place
from meshgen.runtime.plan import ALIGNMENT, aligned


def chain(count: int, nbytes: int) -> list[Lifetime]:
    """Buffer i is written by task i and read by task i + 1, all on stream 0."""
    return [Lifetime(nbytes, (i, 0), (i + 2, 0), False) for i in range(count)]


def test_a_chain_needs_two_buffers():
    offsets, total = place(chain(10, 1000))
    assert total == 2 * aligned(1000)
    assert all(a != b for a, b in itertools.pairwise(offsets))


def test_what_is_in_place_before_the_step_is_never_shared():
    lives = [Lifetime(100, None, (1, 0), True), *chain(4, 100), Lifetime(100, (9, 0), (10, 0), True)]
    offsets, _ = place(lives)
    assert offsets[0] == 0
    assert 0 not in offsets[1:]


def test_streams_that_are_not_ordered_do_not_share():
    # Task 1 of stream 1 reads the first buffer; the writer of the second is task 2 of stream 0 and did not wait.
    first = Lifetime(10, (0, 0), (1, 1), False)
    racing = Lifetime(10, (1, 0), (2, 0), False)
    ordered = Lifetime(10, (1, 1), (2, 0), False)
    assert place([first, racing])[1] == 2 * ALIGNMENT
    assert place([first, ordered])[1] == ALIGNMENT


def test_empty_buffers_take_no_room():
    assert place([Lifetime(0, None, (0, 0), True), Lifetime(0, (0, 0), (1, 0), False)]) == ([0, 0], 0)


def test_clocks_follow_streams_and_events():
    start, end = clocks([0, 1, 0, 1], [[], [0], [], [2]])
    assert start == [(0, 0), (1, 0), (1, 0), (2, 1)]
    assert end == [(1, 0), (1, 1), (2, 0), (2, 2)]


def is_over_before(left: Lifetime, right: Lifetime) -> bool:
    """Whether every access of one storage happens before the other is written."""
    if left.stays or right.born is None:
        return False
    return all(mine <= done for mine, done in zip(left.last, right.born, strict=True))


def test_random_plans_never_overlap_what_is_alive_together():
    rng = random.Random(7)
    for _ in range(20):
        lives = []
        for _ in range(40):
            born = (rng.randrange(60), rng.randrange(60))
            last = (born[0] + rng.randrange(1, 20), rng.choice([0, born[1] + rng.randrange(1, 20)]))
            lives.append(Lifetime(rng.choice([0, 1, 255, 256, 257, 5000]), born, last, rng.random() < 0.1))
        offsets, total = place(lives)
        for i, a in enumerate(lives):
            assert offsets[i] + a.nbytes <= total
            for j, b in enumerate(lives[:i]):
                alive = not (is_over_before(a, b) or is_over_before(b, a))
                apart = offsets[i] + a.nbytes <= offsets[j] or offsets[j] + b.nbytes <= offsets[i]
                assert apart or not alive or not a.nbytes or not b.nbytes
