"""Tests of parallel copies of values between regions on a device: the copies behave as if they were simultaneous."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshgen.runtime.cuda.regions import Copy, in_order


@pytest.mark.parametrize("sources", list(itertools.product(range(4), repeat=3)))
def test_overlapping_copies_behave_as_parallel_copies(sources: tuple[int, ...]) -> None:
    """Slots 0, 1 and 2 get the old contents of any of slots 0 to 3. This includes swaps, chains and cycles."""
    size, staging = 16, 4096
    copies = [Copy({0: source * size}, {0: target * size}, size) for target, source in enumerate(sources)]
    memory = np.zeros(3 * staging, np.uint8)
    memory[: 4 * size] = np.repeat(np.arange(4, dtype=np.uint8), size)
    for source, target, nbytes in in_order(copies, 0, staging):
        memory[target : target + nbytes] = memory[source : source + nbytes]
    assert memory[: 3 * size : size].tolist() == list(sources)


def test_copies_without_conflict_are_direct_and_self_copies_dropped() -> None:
    copies = [Copy({0: 0}, {0: 100}, 50), Copy({0: 200}, {0: 200}, 50), Copy({0: 300}, {0: 400}, 0)]
    assert list(in_order(copies, 0, 4096)) == [(0, 100, 50)]
