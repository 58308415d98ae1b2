"""What regions hand over to each other on a device: several copies as if all were done at once."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from meshgen.runtime.cuda.regions import Copy, in_order


@pytest.mark.parametrize("sources", list(itertools.product(range(4), repeat=3)))
def test_copies_among_the_same_places_are_done_at_once(sources: tuple[int, ...]) -> None:
    """Places 0, 1 and 2 get what any of the places 0 to 3 hold: swaps, chains and rings among them."""
    size, staging = 16, 4096
    copies = [Copy({0: source * size}, {0: target * size}, size) for target, source in enumerate(sources)]
    memory = np.zeros(3 * staging, np.uint8)
    memory[: 4 * size] = np.repeat(np.arange(4, dtype=np.uint8), size)
    for source, target, nbytes in in_order(copies, 0, staging):
        memory[target : target + nbytes] = memory[source : source + nbytes]
    assert memory[: 3 * size : size].tolist() == list(sources)


def test_copies_without_a_clash_are_direct_and_what_stays_is_not_copied() -> None:
    copies = [Copy({0: 0}, {0: 100}, 50), Copy({0: 200}, {0: 200}, 50), Copy({0: 300}, {0: 400}, 0)]
    assert list(in_order(copies, 0, 4096)) == [(0, 100, 50)]
