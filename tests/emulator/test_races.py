"""Tests of races in shared memory: wide accesses race exactly if they would with each byte tracked separately."""

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
    """A reference race detector, which stores the vector clocks of one block and all accesses of each byte."""

    def __init__(self) -> None:
        self.clocks = [[int(a == b) for b in range(WARPS)] for a in range(WARPS)]
        self.writes: dict[int, tuple[int, int]] = {}
        self.reads: dict[int, dict[int, int]] = {}

    def access(self, offset: int, size: int, warp: int, *, write: bool) -> bool:
        """Whether an access races. If it does not, record the access."""
        warp_clock, byte_range = self.clocks[warp], range(offset, offset + size)
        earlier = [self.writes[byte] for byte in byte_range if byte in self.writes]
        if write:
            earlier += [pair for byte in byte_range for pair in self.reads.get(byte, {}).items()]
        if any(clock > warp_clock[by] for by, clock in earlier):
            return True
        for byte in byte_range:
            if write:
                self.writes[byte] = warp, warp_clock[warp]
            else:
                self.reads.setdefault(byte, {})[warp] = warp_clock[warp]
        return False

    def meet(self, warps: list[int]) -> None:
        joined_clock = [max(self.clocks[warp][other_warp] for warp in warps) for other_warp in range(WARPS)]
        for warp in warps:
            self.clocks[warp] = [max(pair) for pair in zip(self.clocks[warp], joined_clock, strict=True)]
            self.clocks[warp][warp] += 1


def raced(races: Races, offset: int, size: int, warp: int, *, write: bool) -> bool:
    where, by = np.array([[offset]]), np.array([[warp]])
    try:
        (races.write if write else races.read)(where, size, by)
    except DeviceFault as fault:
        assert fault.kind == "race"
        return True
    return False


@pytest.mark.parametrize("seed", trials(40))
def test_race_detection_of_all_widths_matches_bytewise_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grain = int(rng.choice([1, 2, 4]))
    races, plain = Races(1, WARPS, STRIDE, grain), WordByWord()
    widths = [size for size in (1, 2, 4, 8, WIDEST, WIDEST, WIDEST) if size >= grain]
    for _ in range(60):
        if rng.random() < 0.3:
            meeting = np.asarray(rng.random((1, WARPS)) < 0.8)
            races.meet(meeting)
            plain.meet([int(warp_index) for warp_index in np.flatnonzero(meeting[0])])
            continue
        size, warp, write = int(rng.choice(widths)), int(rng.integers(WARPS)), bool(rng.random() < 0.5)
        offset = int(rng.integers(STRIDE // size)) * size
        expected = plain.access(offset, size, warp, write=write)
        assert raced(races, offset, size, warp, write=write) == expected
        if expected:
            return  # a kernel ends at its first race


@pytest.mark.parametrize("narrow", [1, 4, 8])
@pytest.mark.parametrize("is_wide_first", [False, True])
def test_partial_read_of_unordered_write_is_a_race(narrow: int, is_wide_first: bool) -> None:
    races = Races(1, WARPS, STRIDE, 1)
    # offset and byte count of a wide access and of a narrow one at its end
    wide, end = (WIDEST, WIDEST), (2 * WIDEST - narrow, narrow)
    first, second = (wide, end) if is_wide_first else (end, wide)
    assert not raced(races, *first, 0, write=True)
    assert raced(races, *second, 1, write=False)


def test_warps_may_write_disjoint_parts_of_segment() -> None:
    races = Races(1, WARPS, STRIDE, 4)
    for warp in range(WARPS):
        assert not raced(races, 4 * warp, 4, warp, write=True)
    assert raced(races, 0, WIDEST, 0, write=False)


def test_matrix_unit_read_requires_proxy_fence() -> None:
    """The fence is needed even if a narrower access has read a part of the words in between."""
    races = Races(1, WARPS, STRIDE, 4)
    access: dict[str, Any] = {"positions": np.array([[0]]), "warps": np.array([[0]])}
    races.write(**access, size=WIDEST)
    races.read(**access, size=4)
    with pytest.raises(DeviceFault, match=r"without fence\.proxy\.async"):
        races.read(**access, size=WIDEST, by_unit=True)
    races.fence(np.array([[True, False, False]]))
    races.read(**access, size=WIDEST, by_unit=True)
