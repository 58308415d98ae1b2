"""Where a changed kernel may differ from the original while it runs: registers thread by thread, shared memory byte by byte.

Sound for all inputs of a kernel whose ways, addresses and predicates do not depend on data: what is not marked holds the
same in both. Registers that depend on no data, but on what was changed, are computed for both and compared.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np

from meshgen.emulator.execute import Step
from meshgen.emulator.program import Instruction, Operand
from meshgen.emulator.spaces import SPACES
from meshgen.emulator.table import address_reader, reader
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
    """What may differ reaches something that others see."""


def whole_warps(wave: Wave, where: Array) -> Array:
    """All threads of the warps that have one of these."""
    return np.repeat(wave.warps_of(where), WARP, 1)


def shared_bytes(wave: Wave, instruction: Instruction, lanes: Array) -> Array:
    """Bytes of shared memory [threads, bytes] that `lanes` access; none where that is not what the instruction does."""
    if not any(word.startswith("shared") for word in instruction.modifiers) or not lanes.any():
        return np.zeros((0, 0), np.int64)
    operand = instruction.operands[has_result(instruction)]
    at = wave.full(address_reader(operand, instruction)(wave))[lanes]
    return SPACES["shared"].keys(wave, at, lanes, 1)[:, None] + np.arange(size_of(instruction))


class Differences:
    """`data`: registers that may depend on data, so that those of another run say nothing of them."""

    def __init__(self, data: Collection[str]) -> None:
        self._data = set(data)
        self._wave: Wave | None = None
        self._registers: dict[str, Array] = {}  # where, [blocks, threads], a register may differ
        self._original: dict[str, Array] = {}  # of those, what it holds in the original kernel, where that is known
        self._shared = np.zeros(0, np.bool_)
        self._is_shared = False  # whether any byte may differ

    def enter(self, wave: Wave) -> None:
        """At the start of a wave of blocks nothing differs."""
        if wave is not self._wave:
            self._wave, self._registers, self._original = wave, {}, {}
            self._shared = np.zeros(wave.shared.elements(np.dtype(np.uint8)).shape, np.bool_)
            self._is_shared = False

    def of(self, *operands: Operand | None) -> Array | None:
        """Where operands may differ; None: nowhere."""
        return self._any(names(operands))

    def add(self, registers: Iterable[str], where: Array) -> None:
        """Registers may differ there too."""
        if where.any():
            for name in registers:
                self._original.pop(name, None)
                self._registers[name] = self._registers[name] | where if name in self._registers else where

    def add_bytes(self, places: Array, value: bool = True) -> None:
        """Bytes of shared memory may differ, or do not any more."""
        if places.size and (value or self._is_shared):
            self._shared[places] = value
            self._is_shared = value or bool(self._shared.any())

    def is_known(self, *instructions: Instruction) -> bool:
        """Whether what they compute in the original kernel can be computed here: of nothing that depends on data."""
        for each in instructions:
            taken = read(each) | written(each) | names([each.guard])
            unknown = taken & self._registers.keys() - self._original.keys()
            depends = (read(each) | names([each.guard])) & self._data
            if not is_pure(each) or unknown or depends or self.of(each.guard) is not None:
                return False
        return True

    def compute_both(self, wave: Wave, original: Step, step: Step, mask: Mask) -> None:
        """Run an instruction as in the original kernel, then as it is here: what they write is compared."""
        assert original.action is not None and step.action is not None
        own, taken = wave.registers, read(original.instruction) | written(original.instruction)
        wave.registers = own | {name: self._original[name] for name in taken & self._original.keys()}
        original.action(wave, mask)
        found, wave.registers = wave.registers, dict(own)
        step.action(wave, mask)
        for name in written(original.instruction):
            self._forget(name)
            value = wave.full(found[name])
            if (where := value != wave.full(wave.registers[name])).any():
                self._registers[name], self._original[name] = where, value

    def run(self, wave: Wave, step: Step, mask: Mask) -> None:
        """Run an instruction, and say what differs behind it. Raises Influence."""
        instruction = step.instruction
        if (read(instruction) | written(instruction)) & self._registers.keys() and self.is_known(instruction):
            self.compute_both(wave, step, step, mask)
            return
        assert step.action is not None
        self._propagate(wave, instruction, wave.lanes(mask))
        step.action(wave, mask)

    def _any(self, registers: Iterable[str]) -> Array | None:
        found = [self._registers[name] for name in registers if name in self._registers]
        return np.any(found, axis=0) if found else None

    def _forget(self, name: str) -> None:
        self._registers.pop(name, None)
        self._original.pop(name, None)

    def _put(self, registers: Iterable[str], where: Array, lanes: Array) -> None:
        """What `lanes` write may differ where `where` says."""
        for name in registers:
            old = self._registers.get(name)
            self._forget(name)
            new = where & lanes if old is None else np.where(lanes, where, old)
            if new.any():
                self._registers[name] = new

    def _propagate(self, wave: Wave, instruction: Instruction, lanes: Array) -> None:
        """What may differ behind an instruction, before it runs."""
        if not self._registers and not self._is_shared:
            return
        found = self._any(read(instruction))
        where = np.zeros(wave.shape, np.bool_) if found is None else found
        self._refuse(instruction, bool((where & lanes).any()))
        if not has_result(instruction):
            self._to_shared(wave, instruction, lanes, where)
        elif instruction.opcode in ("ld", "ldmatrix") and space_of(instruction) == "shared":
            where = where | self._from_shared(wave, instruction, lanes)
        elif instruction.opcode == "selp":
            where = self._selected(wave, instruction)
        if instruction.opcode in WARP_WIDE or instruction.opcode == "ldmatrix":
            where = whole_warps(wave, where & lanes)
        guard = self.of(instruction.guard)
        where = where if guard is None else where | guard
        if names([instruction.guard]) & self._data:
            self.add(written(instruction), where)  # in another run, other threads may do this
        else:
            self._put(written(instruction), where, lanes)

    def _refuse(self, instruction: Instruction, differs: bool) -> None:
        """Raises Influence where what may differ would be seen by others, or is not followed further."""
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
        """Of a selection by something that does not depend on data, only what is selected."""
        _, left, right, by = instruction.operands
        sides = [self.of(side) for side in (left, right)]
        ways = [np.zeros(wave.shape, np.bool_) if side is None else side for side in sides]
        chosen = self.of(by)
        if names([by]) & self._data or chosen is not None:
            return ways[0] | ways[1] | (False if chosen is None else chosen)
        return np.where(wave.full(reader(by, BOOL, instruction)(wave)), *ways)

    def _to_shared(self, wave: Wave, instruction: Instruction, lanes: Array, where: Array) -> None:
        if instruction.opcode not in ("st", "stmatrix") and not is_copy(instruction):
            return
        target = self.of(instruction.operands[0])
        if target is not None and (target & lanes).any():
            raise Influence
        if instruction.opcode == "stmatrix":
            where = whole_warps(wave, where & lanes)
        self.add_bytes(shared_bytes(wave, instruction, lanes & ~where), False)
        self.add_bytes(shared_bytes(wave, instruction, lanes & where))

    def _from_shared(self, wave: Wave, instruction: Instruction, lanes: Array) -> Array:
        found = np.zeros(wave.shape, np.bool_)
        if (places := shared_bytes(wave, instruction, lanes)).size:
            found[lanes] = self._shared[places].any(1)
        return found
