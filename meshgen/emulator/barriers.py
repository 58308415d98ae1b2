"""`bar.sync` and related instructions: threads of a block that wait for each other at one of 16 barriers.

Source: PTX ISA 8.7, "Parallel Synchronization and Communication Instructions: bar, barrier".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.program import Instruction
from meshgen.emulator.table import Reader, reader
from meshgen.emulator.types import Array, unknown
from meshgen.emulator.wave import WARP, Mask, Wave

BARRIERS = 16  # of a block


@dataclass(frozen=True)
class BarrierStep:
    """A barrier instruction: which barrier, of how many threads (None: all of the block), and whether it waits."""

    number: Reader
    count: Reader | None
    waits: bool
    aligned: bool


def barrier_step(instruction: Instruction) -> BarrierStep:
    """`bar.sync 0`, `bar.sync 1, 128`, `bar.arrive 1, 256`, `barrier.sync.aligned 0`, `barrier.cta.sync 0`."""
    words = [word for word in instruction.modifiers if word != "cta"]
    if not words or words[0] not in ("sync", "arrive") or not set(words[1:]) <= {"aligned"}:
        raise unknown(instruction)
    number, *count = (reader(operand, np.dtype(np.uint32), instruction) for operand in instruction.operands)
    aligned = instruction.opcode == "bar" or "aligned" in words
    return BarrierStep(number, count[0] if count else None, words[0] == "sync", aligned)


class Barriers:
    """The waiting threads at the barriers of all blocks of a wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._arrived: dict[int, Array] = {}  # by number: threads [blocks, threads]
        self._waiting: dict[int, Array] = {}  # of those who wait, where they go on; -1 for others
        self._expected: dict[int, Array] = {}  # by number: threads [blocks] that must arrive; 0 for all that live

    def arrive(self, step: BarrierStep, place: int, mask: Mask) -> Iterator[tuple[int, Mask]]:
        """Threads arrive at the instruction `place`; gives groups that may go on, and where."""
        wave = self._wave
        number = step.number(wave)
        if step.count is None and not self._arrived and wave.is_all(mask) and number.size == 1:
            self._pass(wave.lanes(mask))
            yield place + 1, mask
            return
        lanes = wave.lanes(mask)
        if step.aligned:
            self._refuse_parts_of_warps(lanes)
        numbers = wave.full(number)
        for each in np.unique(numbers[lanes]):
            yield from self._arrive_at(int(each), step, place, lanes & (numbers == each))

    def _arrive_at(self, number: int, step: BarrierStep, place: int, lanes: Array) -> Iterator[tuple[int, Mask]]:
        wave = self._wave
        if number >= BARRIERS:
            raise DeviceFault("barrier", f"unknown barrier {number}: a block has {BARRIERS}")
        if number not in self._arrived:
            self._arrived[number] = np.zeros(wave.shape, np.bool_)
            self._waiting[number] = np.full(wave.shape, -1, np.int64)
            self._expected[number] = np.zeros(wave.blocks, np.int64)
        arrived, expected = self._arrived[number], self._expected[number]
        if (arrived & lanes).any():
            raise DeviceFault("barrier", f"threads arrive twice at barrier {number}")
        count = np.zeros(1, np.int64) if step.count is None else wave.full(step.count(wave)).astype(np.int64).max(1)
        if (count % WARP).any():
            raise DeviceFault(
                "barrier", f"barrier {number} is for {int(count.max())} threads, which are not whole warps"
            )
        here = lanes.any(1)
        if ((expected != count) & arrived.any(1) & here).any():
            raise DeviceFault("barrier", f"threads disagree about how many must arrive at barrier {number}")
        expected[:] = np.where(here, count, expected)
        arrived |= lanes
        if step.waits:
            self._waiting[number][lanes] = place + 1
        else:
            yield place + 1, lanes
        yield from self._release(number)

    def released(self) -> Iterator[tuple[int, Mask]]:
        """Threads have ended: groups that no longer wait for them, and where they go on."""
        for number in list(self._arrived):
            yield from self._release(number)

    def _release(self, number: int) -> Iterator[tuple[int, Mask]]:
        """Release the threads of complete barriers."""
        wave = self._wave
        arrived, expected, waiting = self._arrived[number], self._expected[number], self._waiting[number]
        whole = np.where(expected == 0, wave.lanes(None).sum(1), expected)
        have = arrived.sum(1)
        if (have > whole).any():
            raise DeviceFault("barrier", f"{int(have.max())} threads arrive at barrier {number} of {int(whole.max())}")
        full = (have == whole) & (have > 0)
        if not full.any():
            return
        going = arrived & full[:, None]
        self._pass(going)
        for place in np.unique(waiting[going & (waiting >= 0)]):
            yield int(place), going & (waiting == place)
        arrived[full], waiting[full] = False, -1
        if not arrived.any():
            del self._arrived[number], self._waiting[number], self._expected[number]

    def _pass(self, lanes: Array) -> None:
        """Threads have met."""
        wave = self._wave
        if wave.shared.races:
            wave.shared.races.meet(wave.warps_of(lanes))

    def _refuse_parts_of_warps(self, lanes: Array) -> None:
        wave = self._wave
        by_warp = lanes.reshape(wave.blocks, wave.warps, WARP)
        live = wave.lanes(None).reshape(by_warp.shape)
        if (by_warp.any(2) & (live & ~by_warp).any(2)).any():
            raise DeviceFault("barrier", "not all threads of a warp are at the barrier")

    def stuck(self) -> tuple[int, str] | None:
        """A barrier that can no longer complete, and its number of waiting threads; None if there is none."""
        for number, waiting in self._waiting.items():
            block = int(np.argmax((waiting >= 0).any(1)))
            have, live = int(self._arrived[number][block].sum()), int(self._wave.lanes(None)[block].sum())
            expected = int(self._expected[number][block]) or live
            name = f"block {int(self._wave.numbers[block])}"
            reason = f"{have} threads of {name} deadlock at barrier {number}: {expected} must arrive"
            return int(waiting[block].max()) - 1, reason
        return None
