"""meshgen slows down Python's garbage collector while it works: thresholds are raised, then restored."""

from __future__ import annotations

import gc
import subprocess
import sys

import pytest

from meshgen.gc_pace import NEW_OBJECTS, infrequent_gc

# more new objects than Python allows between two collections of the youngest generation
DUE = 2 * gc.get_threshold()[0]


def test_rarely_collecting_restores_the_callers_thresholds() -> None:
    before = gc.get_threshold()
    with pytest.raises(ValueError, match="stop"), infrequent_gc():
        assert gc.get_threshold()[0] == NEW_OBJECTS
        with infrequent_gc():
            assert gc.get_threshold()[0] == NEW_OBJECTS
        assert gc.get_threshold()[0] == NEW_OBJECTS  # the outer context is still active
        raise ValueError("stop")
    assert gc.get_threshold() == before


@pytest.mark.parametrize("pace", [0, 2 * NEW_OBJECTS])
def test_rarely_collecting_keeps_slower_thresholds(pace: int) -> None:
    """A threshold of 0, which disables the collector, is slower than any other."""
    before = gc.get_threshold()
    gc.set_threshold(pace, 5, 5)
    try:
        with infrequent_gc():
            assert gc.get_threshold() == (pace, 5, 5)
        assert gc.get_threshold() == (pace, 5, 5)
    finally:
        gc.set_threshold(*before)


def test_objects_created_while_rarely_collecting_are_old() -> None:
    with infrequent_gc():
        created = [[] for _ in range(DUE)]
    assert not {id(survivor) for survivor in gc.get_objects(generation=0)} & set(map(id, created))


FROZEN = """
import gc
from meshgen.gc_pace import infrequent_gc
gc.freeze()
before, counts = gc.get_freeze_count(), []
count, gc.get_freeze_count = gc.get_freeze_count, lambda: counts.append(1) or count()
gc.collect(0)
with infrequent_gc():
    pass
assert not counts, "counting takes a walk through all that is frozen, so it waits until a collection is due"
with infrequent_gc():
    made = [[] for _ in range(10_000)]
assert counts and count() >= before - 100, "what nobody holds any more is gone, and all else stays frozen"
"""


def test_frozen_objects_of_the_caller_stay_frozen() -> None:
    """This runs in a subprocess with few objects. Freezing and counting all objects of the test process would take
    seconds.
    """
    subprocess.run([sys.executable, "-c", FROZEN], check=True)
