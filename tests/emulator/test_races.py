"""Races in shared memory: accesses of any width are followed as if each word stood for itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.emulator.addresses import WIDEST
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.races import Races
from tests.trials import trials

WARPS, STRIDE = 3, 4 * WIDEST


class WordByWord:
    """The vector clocks of one block, with a set of accesses for each byte."""

    def __init__(self) -> None:
        self.clocks = [[int(a == b) for b in range(WARPS)] for a in range(WARPS)]
        self.writes: dict[int, tuple[int, int]] = {}
        self.reads: dict[int, dict[int, int]] = {}

    def access(self, place: int, size: int, warp: int, *, write: bool) -> bool:
        """Whether it races; nothing is noted if so."""
        own, inside = self.clocks[warp], range(place, place + size)
        earlier = [self.writes[each] for each in inside if each in self.writes]
        if write:
            earlier += [pair for each in inside for pair in self.reads.get(each, {}).items()]
        if any(clock > own[by] for by, clock in earlier):
            return True
        for each in inside:
            if write:
                self.writes[each] = warp, own[warp]
            else:
                self.reads.setdefault(each, {})[warp] = own[warp]
        return False

    def meet(self, warps: list[int]) -> None:
        known = [max(self.clocks[warp][each] for warp in warps) for each in range(WARPS)]
        for warp in warps:
            self.clocks[warp] = [max(pair) for pair in zip(self.clocks[warp], known, strict=True)]
            self.clocks[warp][warp] += 1


def raced(races: Races, place: int, size: int, warp: int, *, write: bool) -> bool:
    where, by = np.array([[place]]), np.array([[warp]])
    try:
        (races.write if write else races.read)(where, size, by)
    except DeviceFault as fault:
        assert fault.kind == "race"
        return True
    return False


@pytest.mark.parametrize("seed", trials(40))
def test_accesses_of_all_widths_race_as_their_words_do(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grain = int(rng.choice([1, 2, 4]))
    races, plain = Races(1, WARPS, STRIDE, grain), WordByWord()
    widths = [size for size in (1, 2, 4, 8, WIDEST, WIDEST, WIDEST) if size >= grain]
    for _ in range(60):
        if rng.random() < 0.3:
            meeting = np.asarray(rng.random((1, WARPS)) < 0.8)
            races.meet(meeting)
            plain.meet([int(each) for each in np.flatnonzero(meeting[0])])
            continue
        size, warp, write = int(rng.choice(widths)), int(rng.integers(WARPS)), bool(rng.random() < 0.5)
        place = int(rng.integers(STRIDE // size)) * size
        wanted = plain.access(place, size, warp, write=write)
        assert raced(races, place, size, warp, write=write) == wanted
        if wanted:
            return  # a kernel ends there


@pytest.mark.parametrize("narrow", [1, 4, 8])
@pytest.mark.parametrize("is_wide_first", [False, True])
def test_a_part_of_what_another_warp_wrote_is_refused(narrow: int, is_wide_first: bool) -> None:
    races = Races(1, WARPS, STRIDE, 1)
    wide, end = (WIDEST, WIDEST), (2 * WIDEST - narrow, narrow)  # place and bytes
    first, second = (wide, end) if is_wide_first else (end, wide)
    assert not raced(races, *first, 0, write=True)
    assert raced(races, *second, 1, write=False)


def test_warps_write_parts_of_one_segment() -> None:
    races = Races(1, WARPS, STRIDE, 4)
    for warp in range(WARPS):
        assert not raced(races, 4 * warp, 4, warp, write=True)
    assert raced(races, 0, WIDEST, 0, write=False)


def test_units_see_what_was_fenced() -> None:
    """Also after a narrower access, in the words that it does not touch."""
    races = Races(1, WARPS, STRIDE, 4)
    one: dict[str, Any] = {"positions": np.array([[0]]), "warps": np.array([[0]])}
    races.write(**one, size=WIDEST)
    races.read(**one, size=4)
    with pytest.raises(DeviceFault, match=r"without fence\.proxy\.async"):
        races.read(**one, size=WIDEST, by_unit=True)
    races.fence(np.array([[True, False, False]]))
    races.read(**one, size=WIDEST, by_unit=True)
