"""Prove that a change of one instruction of a kernel has no effect, for all inputs of a launch.

    same(original, changed, run)    `run` executes the original; its code is replaced and observed meanwhile

1. Control flow, and the addresses and predicates of accesses, must not depend on loaded data
   (`ptx_facts.is_oblivious`). Otherwise one run says nothing about other inputs.
2. The changed kernel is run once. The proof tracks every register of each thread, and every byte of shared memory, that
   may differ from the original kernel at the same point for some input. These are first the values that the changed
   instruction writes, then everything computed from them (`differences.py`).
3. If no difference is stored to global memory, or decides a branch, an address or a predicate, the results are equal
   for all inputs.

Some instructions write nothing and only order others: a barrier, a wait, a commit or a fence. If one is removed, a run
with race and copy checks must have found all accesses ordered without it, and by 1. there are no other accesses. These
checks do not track the threads of one block in global memory. Hence no global memory that a thread writes may be read
in the same launch.

Source of the method: Newsome and Song, Dynamic taint analysis, NDSS 2005.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np

from meshgen.emulator.decoder_table import address_reader, reader
from meshgen.emulator.execute import Step, steps_of
from meshgen.emulator.memory import ALIGNMENT
from meshgen.emulator.program import Entry, Instruction
from meshgen.emulator.wave import Mask, Wave
from tests.emulator.differences import Differences, Influence, complete_warps, shared_bytes
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
    """Whether the changed kernel provably gives the same results for all inputs.

    Args:
        original: the kernel that `run` launches.
        changed: the kernel with one instruction changed or removed; it has run without a fault, with race checks.
        run: launches the original; its result is ignored.
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
    """The code of the changed kernel, with steps that also track the differences from the original kernel."""

    def __init__(self, original: Entry, changed: Entry) -> None:
        """Wrap the steps of the original, and replace the step at which the kernels differ.

        Raises:
            Influence: the effect of this change is not tracked.
        """
        both = zip(original.code, (*changed.code, None), strict=False)
        index = next((n for n, (a, b) in enumerate(both) if b is None or a.text != b.text), 0)
        is_dropped = len(changed.code) < len(original.code)
        data = data_registers(original) | data_registers(changed)
        self._differences = Differences(data)
        # accessed pages of global memory; no two allocations share a page
        self._stored, self._loaded = set[int](), set[int]()
        original_step, changed_step = steps_of(original)[index], None if is_dropped else steps_of(changed)[index]
        if names([original_step.instruction.guard]) & data:
            raise Influence
        self._orders = is_dropped and only_orders(original_step.instruction)
        steps = [self._watched(step) for step in steps_of(original)]
        steps[index] = (
            self._changed_jump(original_step, changed_step)
            if original_step.action is None
            else self._changed_step(original_step, changed_step)
        )
        self.steps = tuple(steps)

    def check_global(self) -> None:
        """Raise Influence if the dropped instruction may order accesses to the same global memory."""
        if self._orders and self._stored & self._loaded:
            raise Influence

    def _watched(self, step: Step) -> Step:
        instruction, original_guard = step.instruction, step.guard
        is_local = has_result(instruction) and instruction.opcode not in STRICT | WARP_WIDE

        def guard(wave: Wave) -> Array:
            assert original_guard is not None
            self._differences.enter(wave)
            if (differing := self._differences.of(instruction.guard)) is not None:
                if not is_local:
                    raise Influence
                self._differences.add(written(instruction), differing)
            return original_guard(wave)

        def action(wave: Wave, mask: Mask) -> None:
            self._differences.enter(wave)
            if self._orders and is_access(instruction) and "global" in instruction.modifiers:
                self._note_global(wave, instruction, wave.lanes(mask))
            self._differences.run(wave, step, mask)

        return replace(step, guard=guard if original_guard else None, action=action if step.action else None)

    def _changed_jump(self, original_step: Step, changed_step: Step | None) -> Step:
        """Return a step that skips a removed barrier, or one that checks that the predicate of a jump keeps its value."""
        if changed_step is None and only_orders(original_step.instruction):
            return Step(original_step.instruction, lambda wave, mask: None, None, frozenset())
        if (
            changed_step is None
            or original_step.guard is None
            or changed_step.guard is None
            or original_step.targets != changed_step.targets
        ):
            raise Influence
        before, now = original_step.guard, changed_step.guard

        def guard(wave: Wave) -> Array:
            self._differences.enter(wave)
            differs = self._differences.of(original_step.instruction.guard, changed_step.instruction.guard) is not None
            if differs or not np.array_equal(predicate := now(wave), before(wave)):
                raise Influence
            return predicate

        return replace(changed_step, guard=guard)

    def _changed_step(self, original_step: Step, changed_step: Step | None) -> Step:
        """Return a step that executes the changed instruction; `changed_step` is None if the instruction is removed."""

        def action(wave: Wave, mask: Mask) -> None:
            self._differences.enter(wave)
            if changed_step is None and only_orders(original_step.instruction):
                return
            was = self._active(wave, original_step, mask)
            now = np.zeros(wave.shape, np.bool_) if changed_step is None else self._active(wave, changed_step, mask)
            if (
                changed_step is not None
                and self._is_known(original_step.instruction, changed_step.instruction)
                and np.array_equal(was, now)
            ):
                self._differences.compute_both(wave, original_step, changed_step, now)
            else:
                self._do_other(wave, original_step, changed_step, was, now)

        step = changed_step or original_step
        return replace(step, guard=None, action=action, waits="", reads=step.reads if changed_step else frozenset())

    def _is_known(self, original: Instruction, changed: Instruction) -> bool:
        return written(original) == written(changed) and self._differences.is_known(original, changed)

    def _do_other(
        self, wave: Wave, original_step: Step, changed_step: Step | None, active_before: Array, active_now: Array
    ) -> None:
        """Mark everything that the original or the changed instruction writes, and execute the changed one.

        If only the guards differ, marks only the threads in which they differ.
        """
        instruction = original_step.instruction
        is_same = changed_step is not None and _without_guard(instruction) == _without_guard(changed_step.instruction)
        differing = active_before ^ active_now if is_same else active_before | active_now
        if differing.any():
            self._require_followed(instruction)
        if instruction.opcode in WARP_WIDE or instruction.opcode == "ldmatrix":
            differing = complete_warps(wave, differing)
        results = written(instruction)
        byte_sets = [] if results else [shared_bytes(wave, instruction, differing & active_before)]
        if changed_step is not None:
            results = results | written(changed_step.instruction)
            byte_sets += [] if results else [shared_bytes(wave, changed_step.instruction, differing & active_now)]
            if active_now.any():
                self._differences.run(wave, changed_step, active_now)
        for byte_indices in byte_sets:
            self._differences.add_bytes(byte_indices)
        self._differences.add(results, differing)

    def _require_followed(self, instruction: Instruction) -> None:
        """Raise Influence if the tracking cannot follow the effect of `instruction`.

        It follows changes of registers, and of shared memory at known addresses.
        """
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
        byte_counts = [
            operand for operand in instruction.operands[3:] if getattr(operand, "width", 4) != 8
        ]  # operands except a cache hint
        if is_copy(instruction) and byte_counts:  # a copy of no bytes may have any source address
            lanes = lanes & (wave.full(reader(byte_counts[0], U32, instruction)(wave)) > 0)
        at = wave.full(address_reader(instruction.operands[is_load], instruction)(wave))[lanes]
        (self._loaded if is_load else self._stored).update(np.unique(at // np.uint64(ALIGNMENT)).tolist())


def _without_guard(instruction: Instruction) -> tuple[object, ...]:
    return instruction.opcode, instruction.modifiers, instruction.operands
