"""Whether a change of one instruction of a kernel can change nothing: a proof for all inputs of this launch.

    same(original, changed, run)    `run` executes the original; its code is exchanged and watched meanwhile

1. Which way threads go, and which addresses and predicates their accesses have, must not depend on loaded data
   (`ptx_facts.is_oblivious`): else no run speaks for other inputs.
2. The changed kernel is run once. Followed is every register, thread by thread, and every byte of shared memory that may
   hold something else than in the original kernel at the same point, whatever the input: at the change what it writes, behind
   it what is computed of that (`differences.py`).
3. If none of it is stored to global memory, or decides a way, an address or a predicate, results are the same for all inputs.

An instruction that only orders others (a barrier, a wait, a commit, a fence) writes nothing: without it, the checks of races
and of copies under way must have found all accesses of a run ordered, and by 1. there are no others. What one thread writes to
global memory must then not be read in the same launch, since these checks do not follow the threads of a block there.

Source of the method: Newsome and Song, Dynamic taint analysis, NDSS 2005.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from meshgen.emulator.execute import Step, steps_of
from meshgen.emulator.memory import ALIGNMENT
from meshgen.emulator.program import Entry, Instruction
from meshgen.emulator.table import address_reader, reader
from meshgen.emulator.wave import Mask, Wave
from tests.emulator.differences import Differences, Influence, shared_bytes, whole_warps
from tests.emulator.ptx_facts import (
    STRICT,
    WARP_WIDE,
    data_registers,
    has_result,
    is_access,
    is_copy,
    is_oblivious,
    names,
    only_orders,
    written,
)

Array = np.ndarray[Any, Any]
U32 = np.dtype(np.uint32)


def same(original: Entry, changed: Entry, run: Callable[[], object]) -> bool:
    """Whether the changed kernel gives the same results for all inputs; False where that is not proven.

    Args:
        changed: with one instruction that is another, or is not there. It has run without a fault, with checks of races.
        run: launches the original; what it gives is not looked at.
    """
    if not (is_oblivious(original) and is_oblivious(changed)):
        return False
    try:
        watch = Watch(original, changed)
        with patch("meshgen.emulator.launch.steps_of", lambda entry: watch.steps):
            run()
        watch.check_global()
    except Influence:
        return False
    return True


class Watch:
    """The code of the changed kernel, each step with what follows the differences."""

    def __init__(self, original: Entry, changed: Entry) -> None:
        """Raises Influence for a change that is not followed."""
        both = zip(original.code, (*changed.code, None), strict=False)
        place = next((n for n, (a, b) in enumerate(both) if b is None or a.text != b.text), 0)
        is_dropped = len(changed.code) < len(original.code)
        data = data_registers(original) | data_registers(changed)
        self._differences = Differences(data)
        self._stored, self._loaded = set[int](), set[int]()  # by pages, of which no two allocations have a common one
        own, other = steps_of(original)[place], None if is_dropped else steps_of(changed)[place]
        if names([own.instruction.guard]) & data:
            raise Influence
        self._orders = is_dropped and only_orders(own.instruction)
        steps = [self._watched(step) for step in steps_of(original)]
        steps[place] = self._exchanged_way(own, other) if own.action is None else self._exchanged(own, other)
        self.steps = tuple(steps)

    def check_global(self) -> None:
        """Raises Influence where the order of threads in global memory would matter."""
        if self._orders and self._stored & self._loaded:
            raise Influence

    def _watched(self, step: Step) -> Step:
        instruction, own = step.instruction, step.guard
        is_local = has_result(instruction) and instruction.opcode not in STRICT | WARP_WIDE

        def guard(wave: Wave) -> Array:
            assert own is not None
            self._differences.enter(wave)
            if (differing := self._differences.of(instruction.guard)) is not None:
                if not is_local:
                    raise Influence
                self._differences.add(written(instruction), differing)
            return own(wave)

        def action(wave: Wave, mask: Mask) -> None:
            self._differences.enter(wave)
            if self._orders and is_access(instruction) and "global" in instruction.modifiers:
                self._note_global(wave, instruction, wave.lanes(mask))
            self._differences.run(wave, step, mask)

        return replace(step, guard=guard if own else None, action=action if step.action else None)

    def _exchanged_way(self, own: Step, other: Step | None) -> Step:
        """A barrier that is left out, or a jump whose predicate must have stayed the same."""
        if other is None and only_orders(own.instruction):
            return Step(own.instruction, lambda wave, mask: None, None, frozenset())
        if other is None or own.guard is None or other.guard is None or own.targets != other.targets:
            raise Influence
        before, now = own.guard, other.guard

        def guard(wave: Wave) -> Array:
            self._differences.enter(wave)
            differs = self._differences.of(own.instruction.guard, other.instruction.guard) is not None
            if differs or not np.array_equal(found := now(wave), before(wave)):
                raise Influence
            return found

        return replace(other, guard=guard)

    def _exchanged(self, own: Step, other: Step | None) -> Step:
        """The changed instruction; None: it is left out."""

        def action(wave: Wave, mask: Mask) -> None:
            self._differences.enter(wave)
            if other is None and only_orders(own.instruction):
                return
            was = self._active(wave, own, mask)
            now = np.zeros(wave.shape, np.bool_) if other is None else self._active(wave, other, mask)
            if other is not None and self._is_known(own.instruction, other.instruction) and np.array_equal(was, now):
                self._differences.compute_both(wave, own, other, now)
            else:
                self._do_other(wave, own, other, was, now)

        step = other or own
        return replace(step, guard=None, action=action, waits="", reads=step.reads if other else frozenset())

    def _is_known(self, own: Instruction, other: Instruction) -> bool:
        return written(own) == written(other) and self._differences.is_known(own, other)

    def _do_other(self, wave: Wave, own: Step, other: Step | None, was: Array, now: Array) -> None:
        """All that either of both writes may differ; if only predicates do, for the threads for which they do."""
        instruction = own.instruction
        is_same = other is not None and _without_guard(instruction) == _without_guard(other.instruction)
        differing = was ^ now if is_same else was | now
        if differing.any():
            self._require_followed(instruction)
        if instruction.opcode in WARP_WIDE or instruction.opcode == "ldmatrix":
            differing = whole_warps(wave, differing)
        results = written(instruction)
        places = [] if results else [shared_bytes(wave, instruction, differing & was)]
        if other is not None:
            results = results | written(other.instruction)
            places += [] if results else [shared_bytes(wave, other.instruction, differing & now)]
            if now.any():
                self._differences.run(wave, other, now)
        for each in places:
            self._differences.add_bytes(each)
        self._differences.add(results, differing)

    def _require_followed(self, instruction: Instruction) -> None:
        """Raises Influence where more than registers and shared memory may differ, or it is not known where."""
        if instruction.opcode in STRICT:
            raise Influence
        if has_result(instruction):
            return
        is_shared = is_copy(instruction) or "shared" in {word.split("::")[0] for word in instruction.modifiers}
        if not is_shared or not is_access(instruction) or self._differences.of(*instruction.operands) is not None:
            raise Influence

    def _active(self, wave: Wave, step: Step, mask: Mask) -> Array:
        lanes = wave.lanes(mask)
        if step.guard is None:
            return np.array(lanes)
        if self._differences.of(step.instruction.guard) is not None:
            raise Influence
        return lanes & wave.full(step.guard(wave))

    def _note_global(self, wave: Wave, instruction: Instruction, lanes: Array) -> None:
        is_load = instruction.opcode == "ld" or is_copy(instruction)
        if not is_load and instruction.opcode != "st":
            raise Influence
        many = [each for each in instruction.operands[3:] if getattr(each, "width", 4) != 8]  # not of a cache hint
        if is_copy(instruction) and many:  # a copy of no bytes may come from anywhere
            lanes = lanes & (wave.full(reader(many[0], U32, instruction)(wave)) > 0)
        at = wave.full(address_reader(instruction.operands[is_load], instruction)(wave))[lanes]
        (self._loaded if is_load else self._stored).update(np.unique(at // np.uint64(ALIGNMENT)).tolist())


def _without_guard(instruction: Instruction) -> tuple[object, ...]:
    return instruction.opcode, instruction.modifiers, instruction.operands
