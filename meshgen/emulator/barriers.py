"""`bar.sync` and related instructions: the threads of a block wait for each other at one of the block's 16 barriers.

Source: PTX ISA 8.7, "Parallel Synchronization and Communication Instructions: bar, barrier".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from meshgen.emulator.decoder_table import Reader, reader
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.program import Instruction
from meshgen.emulator.types import Array, unknown
from meshgen.emulator.wave import WARP, Mask, Wave

BARRIERS = 16  # number of barriers of a block (PTX ISA 8.7, "bar")


@dataclass(frozen=True)
class BarrierStep:
    """A decoded barrier instruction.

    Attributes:
        number: function that reads the index of the barrier.
        count: function that reads the number of threads that must arrive; None if all threads of the block must.
        waits: whether the threads wait (`sync`) or continue at once (`arrive`).
        aligned: whether all threads of a warp must arrive together.
    """

    number: Reader
    count: Reader | None
    waits: bool
    aligned: bool


def barrier_step(instruction: Instruction) -> BarrierStep:
    """Decode a barrier instruction such as `bar.sync 1, 128`, `bar.arrive 1, 256`, `barrier.sync.aligned 0` or
    `barrier.cta.sync 0`.
    """
    words = [word for word in instruction.modifiers if word != "cta"]
    if not words or words[0] not in ("sync", "arrive") or not set(words[1:]) <= {"aligned"}:
        raise unknown(instruction)
    number, *count = (reader(operand, np.dtype(np.uint32), instruction) for operand in instruction.operands)
    aligned = instruction.opcode == "bar" or "aligned" in words
    return BarrierStep(number, count[0] if count else None, words[0] == "sync", aligned)


class Barriers:
    """The state of the barriers of all blocks of a wave."""

    def __init__(self, wave: Wave) -> None:
        self._wave = wave
        self._arrived: dict[int, Array] = {}  # barrier index -> mask [blocks, threads] of the threads that have arrived
        # barrier index -> index of the instruction at which each waiting thread continues; -1 for threads that do not
        # wait
        self._waiting: dict[int, Array] = {}
        # barrier index -> number of threads [blocks] that must arrive; 0 stands for all live threads
        self._expected: dict[int, Array] = {}

    def arrive(self, step: BarrierStep, index: int, mask: Mask) -> Iterator[tuple[int, Mask]]:
        """Record that the threads of `mask` arrive at the barrier instruction `index`. Yields the groups of threads
        that may continue, each with the index of its next instruction.
        """
        wave = self._wave
        number = step.number(wave)
        if step.count is None and not self._arrived and wave.is_all(mask) and number.size == 1:
            self._record_meeting(wave.lanes(mask))
            yield index + 1, mask
            return
        lanes = wave.lanes(mask)
        if step.aligned:
            self._require_complete_warps(lanes)
        numbers = wave.full(number)
        for barrier in np.unique(numbers[lanes]):
            yield from self._arrive_at(int(barrier), step, index, lanes & (numbers == barrier))

    def _arrive_at(self, barrier: int, step: BarrierStep, index: int, lanes: Array) -> Iterator[tuple[int, Mask]]:
        wave = self._wave
        if barrier >= BARRIERS:
            raise DeviceFault("barrier", f"unknown barrier {barrier}: a block has {BARRIERS}")
        if barrier not in self._arrived:
            self._arrived[barrier] = np.zeros(wave.shape, np.bool_)
            self._waiting[barrier] = np.full(wave.shape, -1, np.int64)
            self._expected[barrier] = np.zeros(wave.blocks, np.int64)
        arrived, expected = self._arrived[barrier], self._expected[barrier]
        if (arrived & lanes).any():
            raise DeviceFault("barrier", f"threads arrive twice at barrier {barrier}")
        count = np.zeros(1, np.int64) if step.count is None else wave.full(step.count(wave)).astype(np.int64).max(1)
        if (count % WARP).any():
            raise DeviceFault(
                "barrier", f"barrier {barrier} is for {int(count.max())} threads, which are not whole warps"
            )
        arriving = lanes.any(1)
        if ((expected != count) & arrived.any(1) & arriving).any():
            raise DeviceFault("barrier", f"threads disagree about how many must arrive at barrier {barrier}")
        expected[:] = np.where(arriving, count, expected)
        arrived |= lanes
        if step.waits:
            self._waiting[barrier][lanes] = index + 1
        else:
            yield index + 1, lanes
        yield from self._release(barrier)

    def released(self) -> Iterator[tuple[int, Mask]]:
        """Yield the groups of threads that stop waiting because other threads have ended, each with the index of its
        next instruction.
        """
        for barrier in list(self._arrived):
            yield from self._release(barrier)

    def _release(self, barrier: int) -> Iterator[tuple[int, Mask]]:
        """Yield the groups of threads that wait at `barrier` in blocks where the barrier is complete.

        Each group comes with the index of its next instruction.
        """
        wave = self._wave
        arrived, expected, waiting = self._arrived[barrier], self._expected[barrier], self._waiting[barrier]
        required = np.where(expected == 0, wave.lanes(None).sum(1), expected)
        arrivals = arrived.sum(1)
        if (arrivals > required).any():
            raise DeviceFault(
                "barrier", f"{int(arrivals.max())} threads arrive at barrier {barrier} of {int(required.max())}"
            )
        is_complete = (arrivals == required) & (arrivals > 0)
        if not is_complete.any():
            return
        released = arrived & is_complete[:, None]
        self._record_meeting(released)
        for index in np.unique(waiting[released & (waiting >= 0)]):
            yield int(index), released & (waiting == index)
        arrived[is_complete], waiting[is_complete] = False, -1
        if not arrived.any():
            del self._arrived[barrier], self._waiting[barrier], self._expected[barrier]

    def _record_meeting(self, lanes: Array) -> None:
        """Inform the race detector that the threads of `lanes` have synchronized at a barrier."""
        wave = self._wave
        if wave.shared.races:
            wave.shared.races.meet(wave.warps_of(lanes))

    def _require_complete_warps(self, lanes: Array) -> None:
        wave = self._wave
        by_warp = lanes.reshape(wave.blocks, wave.warps, WARP)
        alive = wave.lanes(None).reshape(by_warp.shape)
        if (by_warp.any(2) & (alive & ~by_warp).any(2)).any():
            raise DeviceFault("barrier", "not all threads of a warp are at the barrier")

    def stuck(self) -> tuple[int, str] | None:
        """Find a barrier that can no longer complete, because all threads wait.

        Returns:
            The index of the barrier instruction and a message, or None if no thread waits.
        """
        for barrier, waiting in self._waiting.items():
            block = int(np.argmax((waiting >= 0).any(1)))
            arrivals, alive = int(self._arrived[barrier][block].sum()), int(self._wave.lanes(None)[block].sum())
            expected = int(self._expected[barrier][block]) or alive
            name = f"block {int(self._wave.numbers[block])}"
            reason = f"{arrivals} threads of {name} deadlock at barrier {barrier}: {expected} must arrive"
            return int(waiting[block].max()) - 1, reason
        return None
