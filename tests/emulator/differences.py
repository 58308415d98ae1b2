"""Track the registers (per thread) and shared memory (per byte) in which a changed kernel may differ from the original.

For a kernel whose control flow, addresses and predicates do not depend on data, the tracking is sound for all inputs:
unmarked registers and bytes are equal in both kernels. A register that depends on the change but on no data is computed
for both kernels, and marked only if the values differ.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from meshgen.emulator.decoder_table import address_reader, reader
from meshgen.emulator.execute import Step
from meshgen.emulator.program import Instruction, Operand
from meshgen.emulator.spaces import SPACES
from meshgen.emulator.wave import WARP, Mask, Wave
from tests.emulator.ptx_facts import (
    STRICT,
    WARP_WIDE,
    has_result,
    is_bulk,
    is_copy,
    is_pure,
    names,
    read,
    size_of,
    space_of,
    written,
)

Array = np.ndarray[Any, Any]
BOOL = np.dtype(np.bool_)


class Influence(Exception):
    """A possible difference reaches memory or control flow that other threads or the results can observe."""


def complete_warps(wave: Wave, where: Array) -> Array:
    """Extend a mask of threads to whole warps: a warp with any thread in the mask is in the result."""
    return np.repeat(wave.warps_of(where), WARP, 1)


def shared_bytes(wave: Wave, instruction: Instruction, lanes: Array) -> Array:
    """Return the byte indices [threads, bytes] in shared memory that threads `lanes` access.

    Returns an empty array if the instruction does not access shared memory.
    """
    if not any(word.startswith("shared") for word in instruction.modifiers) or not lanes.any():
        return np.zeros((0, 0), np.int64)
    operand = instruction.operands[has_result(instruction)]
    at = wave.full(address_reader(operand, instruction)(wave))[lanes]
    return SPACES["shared"].keys(wave, at, lanes, 1)[:, None] + np.arange(size_of(instruction))


class Differences:
    """The registers and shared bytes that may differ between the two kernels.

    `data` are the registers that may depend on loaded data; a run with one input proves nothing about them.
    """

    def __init__(self, data: Collection[str]) -> None:
        self._data = set(data)
        self._wave: Wave | None = None
        self._registers: dict[str, Array] = {}  # mask [blocks, threads] of a register that may differ
        self._original: dict[str, Array] = {}  # values that these registers have in the original kernel, if known
        self._shared = np.zeros(0, np.bool_)
        self._is_shared = False  # whether any byte of shared memory may differ

    def enter(self, wave: Wave) -> None:
        """Forget all differences when a new wave of blocks starts."""
        if wave is not self._wave:
            self._wave, self._registers, self._original = wave, {}, {}
            self._shared = np.zeros(wave.shared.elements(np.dtype(np.uint8)).shape, np.bool_)
            self._is_shared = False

    def of(self, *operands: Operand | None) -> Array | None:
        """Return the mask of threads in which any of `operands` may differ, or None if all are equal."""
        return self._any(names(operands))

    def add(self, registers: Iterable[str], where: Array) -> None:
        """Mark registers as possibly different in the threads of mask `where`."""
        if where.any():
            for name in registers:
                self._original.pop(name, None)
                self._registers[name] = self._registers[name] | where if name in self._registers else where

    def add_bytes(self, byte_indices: Array, value: bool = True) -> None:
        """Mark bytes of shared memory as possibly different, or as equal if `value` is False."""
        if byte_indices.size and (value or self._is_shared):
            self._shared[byte_indices] = value
            self._is_shared = value or bool(self._shared.any())

    def is_known(self, *instructions: Instruction) -> bool:
        """Whether the original results of these instructions can be computed, since they do not depend on loaded data."""
        for instruction in instructions:
            registers = read(instruction) | written(instruction) | names([instruction.guard])
            unknown = registers & self._registers.keys() - self._original.keys()
            depends = (read(instruction) | names([instruction.guard])) & self._data
            if not is_pure(instruction) or unknown or depends or self.of(instruction.guard) is not None:
                return False
        return True

    def compute_both(self, wave: Wave, original: Step, step: Step, mask: Mask) -> None:
        """Execute the instruction of the original kernel and that of the changed one, and mark the results that differ."""
        assert original.action is not None and step.action is not None
        saved_registers, registers = wave.registers, read(original.instruction) | written(original.instruction)
        wave.registers = saved_registers | {name: self._original[name] for name in registers & self._original.keys()}
        original.action(wave, mask)
        original_registers, wave.registers = wave.registers, dict(saved_registers)
        step.action(wave, mask)
        for name in written(original.instruction):
            self._forget(name)
            value = wave.full(original_registers[name])
            if (where := value != wave.full(wave.registers[name])).any():
                self._registers[name], self._original[name] = where, value

    def run(self, wave: Wave, step: Step, mask: Mask) -> None:
        """Execute an instruction and update the differences after it.

        Raises:
            Influence: a difference becomes observable.
        """
        instruction = step.instruction
        if (read(instruction) | written(instruction)) & self._registers.keys() and self.is_known(instruction):
            self.compute_both(wave, step, step, mask)
            return
        assert step.action is not None
        self._propagate(wave, instruction, wave.lanes(mask))
        step.action(wave, mask)

    def _any(self, registers: Iterable[str]) -> Array | None:
        masks = [self._registers[name] for name in registers if name in self._registers]
        return np.any(masks, axis=0) if masks else None

    def _forget(self, name: str) -> None:
        self._registers.pop(name, None)
        self._original.pop(name, None)

    def _put(self, registers: Iterable[str], where: Array, lanes: Array) -> None:
        """Replace the difference masks of `registers` in the threads `lanes`, which write them, with `where`."""
        for name in registers:
            old = self._registers.get(name)
            self._forget(name)
            new = where & lanes if old is None else np.where(lanes, where, old)
            if new.any():
                self._registers[name] = new

    def _propagate(self, wave: Wave, instruction: Instruction, lanes: Array) -> None:
        """Update the differences that an instruction causes, before the instruction is executed."""
        if not self._registers and not self._is_shared:
            return
        operand_differences = self._any(read(instruction))
        where = np.zeros(wave.shape, np.bool_) if operand_differences is None else operand_differences
        self._refuse(instruction, bool((where & lanes).any()))
        if not has_result(instruction):
            self._to_shared(wave, instruction, lanes, where)
        elif instruction.opcode in ("ld", "ldmatrix") and space_of(instruction) == "shared":
            where = where | self._from_shared(wave, instruction, lanes)
        elif instruction.opcode == "selp":
            where = self._selected(wave, instruction)
        if instruction.opcode in WARP_WIDE or instruction.opcode == "ldmatrix":
            where = complete_warps(wave, where & lanes)
        guard = self.of(instruction.guard)
        where = where if guard is None else where | guard
        if names([instruction.guard]) & self._data:
            self.add(written(instruction), where)  # with other inputs, other threads may execute this instruction
        else:
            self._put(written(instruction), where, lanes)

    def _refuse(self, instruction: Instruction, differs: bool) -> None:
        """Raise Influence if an instruction makes a difference observable, or has an effect that is not tracked."""
        opcode, space = instruction.opcode, space_of(instruction)
        is_generic = opcode in ("ld", "ldu", "st") and not space
        if self._is_shared and (opcode in STRICT or is_bulk(instruction) or is_generic):
            raise Influence
        is_followed = (
            has_result(instruction) or is_copy(instruction) or (opcode in ("st", "stmatrix") and space == "shared")
        )
        if differs and (not is_followed or is_generic or opcode in STRICT):
            raise Influence

    def _selected(self, wave: Wave, instruction: Instruction) -> Array:
        """Return the difference mask of the result of a select.

        If the predicate does not depend on data, only the selected operand counts in each thread.
        """
        _, left, right, by = instruction.operands
        sides = [self.of(side) for side in (left, right)]
        masks = [np.zeros(wave.shape, np.bool_) if side is None else side for side in sides]
        chosen = self.of(by)
        if names([by]) & self._data or chosen is not None:
            return masks[0] | masks[1] | (False if chosen is None else chosen)
        return np.where(wave.full(reader(by, BOOL, instruction)(wave)), *masks)

    def _to_shared(self, wave: Wave, instruction: Instruction, lanes: Array, where: Array) -> None:
        if instruction.opcode not in ("st", "stmatrix") and not is_copy(instruction):
            return
        target = self.of(instruction.operands[0])
        if target is not None and (target & lanes).any():
            raise Influence
        if instruction.opcode == "stmatrix":
            where = complete_warps(wave, where & lanes)
        self.add_bytes(shared_bytes(wave, instruction, lanes & ~where), False)
        self.add_bytes(shared_bytes(wave, instruction, lanes & where))

    def _from_shared(self, wave: Wave, instruction: Instruction, lanes: Array) -> Array:
        differing = np.zeros(wave.shape, np.bool_)
        if (byte_indices := shared_bytes(wave, instruction, lanes)).size:
            differing[lanes] = self._shared[byte_indices].any(1)
        return differing
