"""The pace of Python's collector while meshgen works."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from meshgen.gc_pace import NEW_OBJECTS, rarely_collecting

DUE = 2 * gc.get_threshold()[0]  # objects, more than there are between two collections of the youngest


def test_the_caller_s_pace_comes_back() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="stop"), rarely_collecting():
        assert gc.get_threshold()[0] == NEW_OBJECTS
        with rarely_collecting():
            assert gc.get_threshold()[0] == NEW_OBJECTS
        assert gc.get_threshold()[0] == NEW_OBJECTS  # still within
        raise ValueError("stop")
    assert gc.get_threshold() == before


@pytest.mark.parametrize("pace", [0, 2 * NEW_OBJECTS])
def test_a_slower_pace_stays(pace: int) -> None:
    """0 is a collector that is off."""
    before = gc.get_threshold()
    gc.set_threshold(pace, 5, 5)
    try:
        with rarely_collecting():
            assert gc.get_threshold() == (pace, 5, 5)
        assert gc.get_threshold() == (pace, 5, 5)
    finally:
        gc.set_threshold(*before)


def test_what_was_made_within_counts_as_old() -> None:
    with rarely_collecting():
        made = [[] for _ in range(DUE)]
    assert not {id(each) for each in gc.get_objects(generation=0)} & set(map(id, made))


FROZEN = """
import gc
from meshgen.gc_pace import rarely_collecting
gc.freeze()
before, counts = gc.get_freeze_count(), []
count, gc.get_freeze_count = gc.get_freeze_count, lambda: counts.append(1) or count()
gc.collect(0)
with rarely_collecting():
    pass
assert not counts, "counting takes a walk through all that is frozen, so it waits until a collection is due"
with rarely_collecting():
    made = [[] for _ in range(10_000)]
assert counts and count() >= before - 100, "what nobody holds any more is gone, and all else stays frozen"
"""


def test_what_the_caller_has_frozen_stays_frozen_and_is_seldom_counted() -> None:
    """In a process of its own: to freeze and count all that other tests have left takes seconds."""
    subprocess.run([sys.executable, "-c", FROZEN], check=True)
