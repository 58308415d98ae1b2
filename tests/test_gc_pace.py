"""The pace of Python's collector while meshgen works."""

from __future__ import annotations

import gc

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


@pytest.mark.usefixtures("few_objects")
def test_what_the_caller_has_frozen_stays_frozen() -> None:
    before = gc.get_freeze_count()
    with rarely_collecting():
        made = [[] for _ in range(DUE)]
    assert made and gc.get_freeze_count() >= before - 100  # but for what nobody holds any more


@pytest.mark.usefixtures("few_objects")
def test_what_is_frozen_is_not_counted_after_each_small_piece_of_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """It takes a walk through all that is frozen."""
    monkeypatch.setattr("gc.get_freeze_count", lambda: pytest.fail("counted"))
    gc.collect(0)
    with rarely_collecting():
        pass
