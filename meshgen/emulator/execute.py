"""Interpreter of a wave: always runs the threads that are earliest in the program, so that diverged threads reconverge.

Threads that wait at a barrier or for a copy are parked until the barrier or copy completes. If no other thread can run,
the parked threads are deadlocked, which is a fault.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field

import numpy as np

from meshgen.emulator.barriers import Barriers, BarrierStep, barrier_step
from meshgen.emulator.decoder_table import Reader, reader
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.instructions import DECODERS, decoder_of
from meshgen.emulator.program import Entry, Instruction, Register, Symbol, registers_of
from meshgen.emulator.types import Array, unknown
from meshgen.emulator.wave import Action, Mask, Wave

_ENDS = ("ret", "exit")
_WAITS = ("mbarrier.try_wait", "mbarrier.test_wait")


@dataclass(frozen=True, slots=True)
class Step:
    """A decoded instruction.

    Attributes:
        guard: function that reads the predicate under which the instruction runs.
        reads: names of the registers that the instruction reads.
        targets: instruction indices of the branch targets. If there are several, `index` reads the index of the target
            to take.
        ends: whether the instruction ends the thread.
        barrier: the barrier operation, if the instruction is one.
        waits: name of the register that receives for each thread whether its wait is over; empty for instructions that
            do not wait.
        asynchronous: whether the instruction itself handles registers that asynchronous operations are still writing.
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
    """Decode the code of an entry. Raises DeviceFault "opcode" for an unsupported instruction."""
    return tuple(_decoded_step(instruction, entry) for instruction in entry.code)


def _decoded_step(instruction: Instruction, entry: Entry) -> Step:
    try:
        return _decode(instruction, entry)
    except DeviceFault as fault:
        raise fault.located(entry.name, instruction.source, instruction.text) from None
    except (
        IndexError,
        KeyError,
        ValueError,
        AssertionError,
        AttributeError,
    ):  # raised if an operand is missing or has the wrong form
        raise unknown(instruction).located(entry.name, instruction.source, instruction.text) from None


def _decode(instruction: Instruction, entry: Entry) -> Step:
    """Decode a well-formed instruction. Raises DeviceFault "opcode" if the opcode or a modifier is unsupported."""
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
        case opcode if opcode in DECODERS:
            action = decoder_of(instruction)(instruction)
            name = f"{opcode}.{instruction.modifiers[0]}" if instruction.modifiers else opcode
            waits = next(iter(registers_of(instruction.operands[0]))).name if name in _WAITS else ""
            handles_pending = opcode in ("wgmma",) or (opcode == "mov" and len(instruction.operands) == 2)
            return Step(instruction, action, guard, reads, waits=waits, asynchronous=handles_pending)
        case _:
            raise unknown(instruction)


def _registers_read(instruction: Instruction) -> frozenset[str]:
    names = set[str]()
    for operand in (*instruction.operands[1:], instruction.guard):
        if isinstance(operand, Register):
            names.add(operand.name)
        else:
            names.update(register.name for register in registers_of(operand))
    return frozenset(names)


def _label_target(target: object, entry: Entry) -> int:
    assert isinstance(target, Symbol)
    return entry.labels[target.name]


@dataclass
class Execution:
    """The state of a running wave: its threads, grouped by the index of their next instruction.

    Attributes:
        limit: number of instructions that the wave may issue.
        ready: masks of the threads that can run, by the index of their next instruction.
        asleep: masks of the threads that wait for an asynchronous operation, by the index of the instruction at which
            they wait.
    """

    wave: Wave
    steps: tuple[Step, ...]
    limit: int
    ready: dict[int, Mask] = field(default_factory=lambda: {0: None})
    asleep: dict[int, Array] = field(default_factory=dict[int, Array])
    barriers: Barriers = field(init=False)

    def __post_init__(self) -> None:
        self.barriers = Barriers(self.wave)

    def run(self) -> None:
        """Run all threads until they end. A DeviceFault gets the source location of the instruction that raised it."""
        try:
            while self.ready or self._wake():
                start = min(self.ready)
                mask = self.ready.pop(start)
                while (next_start := self._run_group(start, mask)) >= 0:
                    start = next_start
        except DeviceFault as fault:
            step = self.steps[min(self.at, len(self.steps) - 1)]
            raise fault.located(self.wave.entry.name, step.instruction.source, step.instruction.text) from None

    at: int = 0  # index of the current instruction

    def _run_group(self, start: int, mask: Mask) -> int:
        """Run one group of threads from instruction `start` up to the next point where groups split or merge.

        Returns:
            The index at which the whole group continues, or -1 if the group was moved to `ready` or parked.
        """
        wave, steps = self.wave, self.steps
        while True:
            if start >= len(steps):
                self._end(mask)
                return -1
            step = steps[start]
            self.at = start
            wave.issued += 1
            if wave.issued > self.limit:
                raise DeviceFault(
                    "time", f"the kernel did not end within {self.limit:,} instructions (--instruction-limit)"
                )
            pending = wave.pending.numbers
            if (
                pending
                and not step.asynchronous
                and not step.reads.isdisjoint(pending)
                and self._reads_pending_register(step, mask)
            ):
                raise DeviceFault(
                    "async copy", "a register is read before the matrix unit that writes it was waited for"
                )
            active = mask
            if step.guard is not None:
                active = self._guarded(step.guard(wave), mask)
                if active is not None and active is not mask and not active.any():
                    start += 1
                    continue
            if step.action is None:
                return self._control(step, start, mask, active)
            step.action(wave, active)
            if step.waits and not self._awaited(step, start, active, mask):
                return -1
            start += 1
            if self.ready and min(self.ready) <= start:
                self._put(start, mask)
                return -1

    def _reads_pending_register(self, step: Step, mask: Mask) -> bool:
        """Whether the threads of `mask` read a register that is still a pending result of a matrix operation."""
        return self.wave.pending.has(step.reads, self.wave.warp_groups_of(mask))

    def _guarded(self, predicate: Array, mask: Mask) -> Mask:
        """Return the threads of `mask` for which the predicate is true. If it is true for all, this is the object
        `mask` itself.
        """
        if predicate.all():
            return mask
        if mask is None:
            return predicate
        return predicate & mask

    def _control(self, step: Step, index: int, mask: Mask, active: Mask) -> int:
        """Execute a jump, an end or a barrier for the threads `active` of the group `mask`."""
        inactive = None if active is mask else self._lanes(mask) & ~self._lanes(active)
        if inactive is not None and inactive.any():
            self._put(index + 1, inactive)
        if step.ends:
            self._end(active)
        elif step.barrier:
            for target, lanes in self.barriers.arrive(step.barrier, index, active):
                self._put(target, lanes)
        elif step.index is not None:
            self._switch(step.index(self.wave), step.targets, self._lanes(active))
        else:
            self._put(step.targets[0], active)
        return -1

    def _switch(self, index: Array, targets: tuple[int, ...], lanes: Array) -> None:
        if (self.wave.full(index)[lanes] >= len(targets)).any():
            raise DeviceFault("address", f"a jump goes beyond the {len(targets)} targets of its table")
        for number, target in enumerate(targets):
            if (chosen := lanes & (index == number)).any():
                self._put(target, chosen)

    def _lanes(self, mask: Mask) -> Array:
        return self.wave.lanes(mask)

    def _put(self, index: int, mask: Mask) -> None:
        """Make threads ready at instruction `index`, merged with the threads that are ready there already."""
        if index in self.ready:
            mask = self._lanes(self.ready[index]) | self._lanes(mask)
        if mask is not None and mask is not self.wave.alive:
            mask = self._whole(mask)
        self.ready[index] = mask

    def _whole(self, mask: Array) -> Mask:
        """Return `wave.alive` if `mask` is equal to it, else `mask`. Operations on the object `wave.alive` are
        faster.
        """
        alive = self.wave.alive
        if alive is None:
            return None if mask.all() else mask
        return alive if np.array_equal(self._lanes(mask), self._lanes(alive)) else mask

    def _end(self, mask: Mask) -> None:
        """End the threads of `mask`, and release threads at barriers that waited only for the ended threads."""
        alive = self._lanes(None) & ~self._lanes(mask)
        self.wave.alive = alive
        for index, threads in list(self.ready.items()):
            self.ready[index] = self._whole(self._lanes(threads)) if threads is not None else alive
        for target, lanes in self.barriers.released():
            self._put(target, lanes)

    def _awaited(self, step: Step, index: int, active: Mask, mask: Mask) -> bool:
        """Return whether the waits of all active threads are over. If not, the group is split, and the threads that
        still wait sleep.
        """
        lanes = self._lanes(active)
        waiting = lanes & ~self.wave.registers[step.waits]
        if not waiting.any():
            return True
        self.asleep[index] = waiting | self.asleep[index] if index in self.asleep else waiting
        if (done := self._lanes(mask) & ~waiting).any():
            self._put(index + 1, done)
        return False

    def _deadlock(self) -> str:
        """Return a message about deadlocked threads: where they wait, and what the mbarriers there lack."""
        lanes = self.asleep[self.at]
        block = int(np.argmax(lanes.any(1)))
        missing = [
            f"{address:#x} lacks {int(state.missing[block])} arrivals and {int(state.bytes[block])} bytes"
            for address, state in self.wave.pending_operations.mbarriers.items()
            if state.expected[block] and (state.missing[block] or state.bytes[block])
        ]
        name = f"{int(lanes[block].sum())} threads of block {int(self.wave.numbers[block])}"
        return f"deadlock: {name} wait for an mbarrier that no pending operation completes ({', '.join(missing[:4])})"

    _seen: int = -1  # value of `wave.issued` when the sleeping threads were last woken

    def _wake(self) -> bool:
        """Make the sleeping threads ready again if any instruction was issued since they last woke.

        Returns:
            False if all threads have ended.
        Raises:
            DeviceFault: the remaining threads are deadlocked.
        """
        if self.asleep:
            if self.wave.issued - self._seen <= len(self.asleep):
                self.at = min(self.asleep)
                raise DeviceFault("barrier", self._deadlock())
            self._seen = self.wave.issued
            for index, lanes in self.asleep.items():
                self._put(index, lanes)
            self.asleep = {}
            return True
        if stuck := self.barriers.stuck():
            self.at = stuck[0]
            raise DeviceFault("barrier", stuck[1])
        return False
