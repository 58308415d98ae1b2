"""Runs the threads of a wave: those earliest in the program run first, so that diverged paths reconverge.

Threads that wait (at a barrier, or for a copy) are parked until it completes; if no other thread can run, they
are deadlocked, which is a fault.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from meshgen.emulator.barriers import Barriers, BarrierStep, barrier_step
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.instructions import MAKERS, maker_of
from meshgen.emulator.program import Entry, Instruction, Register, Symbol, registers_of
from meshgen.emulator.table import Reader, reader
from meshgen.emulator.types import Array, unknown
from meshgen.emulator.wave import Action, Mask, Wave

_ENDS = ("ret", "exit")
_WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")


@dataclass(frozen=True, slots=True)
class Step:
    """An instruction that is ready to run.

    Attributes:
        guard: the predicate under which it runs.
        targets: where a jump goes, by the value of `index` if there are several.
        barrier: what to do at a barrier.
        waits: the register that says which threads need not wait any more.
        asynchronous: whether it knows of registers that asynchronous operations write.
    """

    instruction: Instruction
    action: Action | None
    guard: Reader | None
    reads: frozenset[str]
    targets: tuple[int, ...] = ()
    index: Reader | None = None
    ends: bool = False
    barrier: BarrierStep | None = None
    waits: str = ""
    asynchronous: bool = False


@functools.lru_cache(maxsize=256)
def steps_of(entry: Entry) -> tuple[Step, ...]:
    """The code of an entry. Raises DeviceFault "opcode" for an instruction that is not known."""
    return tuple(_decoded_step(each, entry) for each in entry.code)


def _decoded_step(instruction: Instruction, entry: Entry) -> Step:
    try:
        return _known(instruction, entry)
    except DeviceFault as fault:
        raise fault.located(entry.name, instruction.source, instruction.text) from None
    except (
        IndexError,
        KeyError,
        ValueError,
        AssertionError,
        AttributeError,
    ):  # an operand is missing, or none that the instruction takes
        raise unknown(instruction).located(entry.name, instruction.source, instruction.text) from None


def _known(instruction: Instruction, entry: Entry) -> Step:
    guard = reader(instruction.guard, np.dtype(np.bool_), instruction) if instruction.guard else None
    reads = _registers_read(instruction)
    match instruction.opcode:
        case "bra":
            return Step(instruction, None, guard, reads, (_label_target(instruction.operands[0], entry),))
        case "brx":
            index, table = instruction.operands
            assert isinstance(table, Symbol)
            targets = tuple(entry.labels[name] for name in entry.tables[table.name])
            return Step(instruction, None, guard, reads, targets, reader(index, np.dtype(np.uint32), instruction))
        case "ret" | "exit":
            return Step(instruction, None, guard, reads, ends=True)
        case "bar" | "barrier" if instruction.modifiers[:1] != ("warp",):
            return Step(instruction, None, guard, reads, barrier=barrier_step(instruction))
        case opcode if opcode in MAKERS:
            action = maker_of(instruction)(instruction)
            name = f"{opcode}.{instruction.modifiers[0]}" if instruction.modifiers else opcode
            waits = next(iter(registers_of(instruction.operands[0]))).name if name in _WAITS else ""
            knows = opcode in ("wgmma",) or (opcode == "mov" and len(instruction.operands) == 2)
            return Step(instruction, action, guard, reads, waits=waits, asynchronous=knows)
        case _:
            raise unknown(instruction)


def _registers_read(instruction: Instruction) -> frozenset[str]:
    found = set[str]()
    for operand in (*instruction.operands[1:], instruction.guard):
        if isinstance(operand, Register):
            found.add(operand.name)
        else:
            found.update(register.name for register in registers_of(operand))
    return frozenset(found)


def _label_target(target: object, entry: Entry) -> int:
    assert isinstance(target, Symbol)
    return entry.labels[target.name]


@dataclass
class Execution:
    """The threads of a wave by where they are.

    Attributes:
        ready: threads that can go on, by the number of their next instruction.
        asleep: threads that wait for an asynchronous operation, by the instruction that asks for it.
    """

    wave: Wave
    steps: tuple[Step, ...]
    limit: int  # instructions that the wave may issue
    ready: dict[int, Mask] = field(default_factory=lambda: {0: None})
    asleep: dict[int, Array] = field(default_factory=dict[int, Array])
    barriers: Barriers = field(init=False)

    def __post_init__(self) -> None:
        self.barriers = Barriers(self.wave)

    def run(self) -> None:
        """All threads to their end. Raises DeviceFault, with its place."""
        try:
            while self.ready or self._wake():
                place = min(self.ready)
                mask = self.ready.pop(place)
                while (after := self._go(place, mask)) >= 0:
                    place = after
        except DeviceFault as fault:
            step = self.steps[min(self.at, len(self.steps) - 1)]
            raise fault.located(self.wave.entry.name, step.instruction.source, step.instruction.text) from None

    at: int = 0  # the instruction that runs

    def _go(self, place: int, mask: Mask) -> int:
        """Run instructions from `place` on for one group of threads, up to the next that parts or joins groups.

        Returns:
            Where the whole group goes on; -1 where it was handed to `ready`, or is parked.
        """
        wave, steps = self.wave, self.steps
        while True:
            if place >= len(steps):
                self._end(mask)
                return -1
            step = steps[place]
            self.at = place
            wave.issued += 1
            if wave.issued > self.limit:
                raise DeviceFault(
                    "time", f"the kernel did not end within {self.limit:,} instructions (--instruction-limit)"
                )
            pending = wave.pending.numbers
            if pending and not step.asynchronous and not step.reads.isdisjoint(pending) and self._is_early(step, mask):
                raise DeviceFault(
                    "async copy", "a register is read before the matrix unit that writes it was waited for"
                )
            now = mask
            if step.guard is not None:
                now = self._guarded(step.guard(wave), mask)
                if now is not None and now is not mask and not now.any():
                    place += 1
                    continue
            if step.action is None:
                return self._control(step, place, mask, now)
            step.action(wave, now)
            if step.waits and not self._awaited(step, place, now, mask):
                return -1
            place += 1
            if self.ready and min(self.ready) <= place:
                self._put(place, mask)
                return -1

    def _is_early(self, step: Step, mask: Mask) -> bool:
        """Whether a register that these threads read is still written by a product of theirs."""
        return self.wave.pending.has(step.reads, self.wave.warp_groups_of(mask))

    def _guarded(self, predicate: Array, mask: Mask) -> Mask:
        """The threads of a group whose predicate holds: the group itself where all do."""
        if predicate.all():
            return mask
        if mask is None:
            return predicate
        return predicate & mask

    def _control(self, step: Step, place: int, mask: Mask, now: Mask) -> int:
        """A jump, an end or a barrier, for the threads `now` of the group `mask`."""
        rest = None if now is mask else self._lanes(mask) & ~self._lanes(now)
        if rest is not None and rest.any():
            self._put(place + 1, rest)
        if step.ends:
            self._end(now)
        elif step.barrier:
            for number, lanes in self.barriers.arrive(step.barrier, place, now):
                self._put(number, lanes)
        elif step.index is not None:
            self._switch(step.index(self.wave), step.targets, self._lanes(now))
        else:
            self._put(step.targets[0], now)
        return -1

    def _switch(self, index: Array, targets: tuple[int, ...], lanes: Array) -> None:
        if (self.wave.full(index)[lanes] >= len(targets)).any():
            raise DeviceFault("address", f"a jump goes beyond the {len(targets)} targets of its table")
        for number, target in enumerate(targets):
            if (chosen := lanes & (index == number)).any():
                self._put(target, chosen)

    def _lanes(self, mask: Mask) -> Array:
        return self.wave.lanes(mask)

    def _put(self, place: int, mask: Mask) -> None:
        """Hand threads over to where they go on, together with those that are there."""
        if place in self.ready:
            mask = self._lanes(self.ready[place]) | self._lanes(mask)
        if mask is not None and mask is not self.wave.alive:
            mask = self._whole(mask)
        self.ready[place] = mask

    def _whole(self, mask: Array) -> Mask:
        """The group as `wave.alive` where it has all that live, which is quicker to work with."""
        alive = self.wave.alive
        if alive is None:
            return None if mask.all() else mask
        return alive if np.array_equal(self._lanes(mask), self._lanes(alive)) else mask

    def _end(self, mask: Mask) -> None:
        """Threads end; barriers do not wait for them any more."""
        left = self._lanes(None) & ~self._lanes(mask)
        self.wave.alive = left
        for place, each in list(self.ready.items()):
            self.ready[place] = self._whole(self._lanes(each)) if each is not None else left
        for number, lanes in self.barriers.released():
            self._put(number, lanes)

    def _awaited(self, step: Step, place: int, now: Mask, mask: Mask) -> bool:
        """Whether the waits of all threads are over; else the group is split, and the waiting ones sleep."""
        lanes = self._lanes(now)
        waiting = lanes & ~self.wave.registers[step.waits]
        if not waiting.any():
            return True
        self.asleep[place] = waiting | self.asleep[place] if place in self.asleep else waiting
        if (done := self._lanes(mask) & ~waiting).any():
            self._put(place + 1, done)
        return False

    def _deadlock(self) -> str:
        """Return what the first waiting threads wait for, and what is missing there."""
        lanes = self.asleep[self.at]
        block = int(np.argmax(lanes.any(1)))
        missing = [
            f"{address:#x} lacks {int(state.missing[block])} arrivals and {int(state.bytes[block])} bytes"
            for address, state in self.wave.under_way.mbarriers.items()
            if state.expected[block] and (state.missing[block] or state.bytes[block])
        ]
        name = f"{int(lanes[block].sum())} threads of block {int(self.wave.numbers[block])}"
        return f"deadlock: {name} wait for an mbarrier that no pending operation completes ({', '.join(missing[:4])})"

    _seen: int = -1  # instructions issued when threads last woke

    def _wake(self) -> bool:
        """No thread is ready: retry the sleeping ones if anything has happened since. False at the end."""
        if self.asleep:
            if self.wave.issued - self._seen <= len(self.asleep):
                self.at = min(self.asleep)
                raise DeviceFault("barrier", self._deadlock())
            self._seen = self.wave.issued
            for place, lanes in self.asleep.items():
                self._put(place, lanes)
            self.asleep = {}
            return True
        if reason := self.barriers.stuck():
            self.at = reason[0]
            raise DeviceFault("barrier", reason[1])
        return False
