"""A wave is a set of blocks that run at once: registers, shared memory, and the mask of live threads.

A value is an array that broadcasts to [blocks, threads]: its shape is [1, threads] if it is equal in all blocks, and
[blocks, 1] if it is equal in all threads of a block. Registers hold bits: unsigned integers of their width, or
booleans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from meshgen.emulator.asynchronous import PendingOperations, PendingRegisters
from meshgen.emulator.global_memory import GlobalMemory
from meshgen.emulator.program import Entry, Instruction, Operand, Register, Sink, registers_of
from meshgen.emulator.shared_memory import SharedMemory
from meshgen.emulator.types import BITS, Array

WARP = 32  # threads of a warp (PTX ISA 8.7, "WARP_SZ")
WARPS = 4  # warps of a warp group (PTX ISA 8.7, "wgmma")
CARRY = "%cc"  # name of the carry flag among the registers
Mask = Array | None  # the selected threads [blocks, threads]; None selects all
Action = Callable[["Wave", Mask], None]


@dataclass
class Wave:
    """The state of the blocks of one launch that run together.

    Attributes:
        numbers: indices in the grid of the blocks of the wave.
        alive: mask of the threads that have not ended; None while no thread has ended.
        local: bytes of local memory [blocks * threads, bytes].
        sums: accumulator arrays by the name of their first register, each with the register values that are views of
            it.
        pending: registers that an asynchronous operation has not written yet.
        issued: number of instructions issued so far.
    """

    entry: Entry
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    numbers: Array
    parameters: bytes
    memory: GlobalMemory
    shared: SharedMemory
    registers: dict[str, Array]
    local: Array
    pending_operations: PendingOperations
    specials: dict[str, Array] = field(default_factory=dict[str, Array])
    alive: Mask = None
    pending: PendingRegisters = field(default_factory=PendingRegisters)
    issued: int = 0
    sums: dict[str, tuple[list[Array], Array]] = field(default_factory=dict[str, tuple[list[Array], Array]])

    @property
    def blocks(self) -> int:
        return len(self.numbers)

    @property
    def threads(self) -> int:
        return math.prod(self.block)

    @property
    def shape(self) -> tuple[int, int]:
        return self.blocks, self.threads

    @property
    def warps(self) -> int:
        return self.threads // WARP

    def block_indices_of(self, lanes: Array | None) -> Array:
        """Return the block index of each thread in `lanes`, or of all blocks as [blocks, 1] if `lanes` is None."""
        return self.numbers[:, None] if lanes is None else self.numbers[np.nonzero(lanes)[0]]

    def full(self, value: Array) -> Array:
        """Return a value (see the module's docstring) broadcast to [blocks, threads]."""
        shape = self.shape
        return value if value.shape == shape else np.broadcast_to(value, shape)

    def by_warp(self, value: Array) -> Array:
        """Return a value as an array that broadcasts to [blocks, warps, 32]."""
        return value[..., None] if value.shape[1] == 1 else value.reshape(len(value), self.warps, WARP)

    def lanes_by_warp(self, mask: Mask) -> Array:
        """Return the mask as an array [blocks, warps, 32], without the threads that have ended if `mask` is None."""
        return self.lanes(mask).reshape(self.blocks, self.warps, WARP)

    def warps_of(self, lanes: Array) -> Array:
        """Return which warps [blocks, warps] have at least one of the threads `lanes` [blocks, threads]."""
        return np.asarray(lanes.reshape(self.blocks, self.warps, WARP).any(2))

    def from_warps(self, value: Array) -> Array:
        """Invert `by_warp`: `value` broadcasts to [blocks, warps, 32]."""
        broadcast = np.broadcast_to(value, (len(value), self.warps, WARP))
        return broadcast.reshape(len(value), self.threads)

    def warp_groups_of(self, mask: Mask) -> Array:
        """Return the indices of the warp groups, counted through all blocks, that have at least one thread of `mask`."""
        return np.flatnonzero(self.lanes(mask).reshape(-1, WARPS * WARP).any(1))

    def lanes(self, mask: Mask) -> Array:
        """Return the mask as an array [blocks, threads]; None selects the threads that are alive."""
        selected = self.alive if mask is None else mask
        return np.ones(self.shape, np.bool_) if selected is None else np.broadcast_to(selected, self.shape)

    def is_all(self, mask: Mask) -> bool:
        """Whether `mask` selects all live threads: it is None or the array `alive`."""
        return mask is None or mask is self.alive

    def put(self, register: Operand, bits: Array, mask: Mask) -> None:
        """Write `bits`, which have the width of the register, to the register for the threads of `mask`."""
        if isinstance(register, Sink):
            return
        assert isinstance(register, Register)
        if not self.is_all(mask):
            bits = np.where(mask, bits, self.registers[register.name])  # type: ignore[arg-type]
        self.registers[register.name] = bits


def initial_registers(code: Sequence[Instruction]) -> dict[str, Array]:
    """Return the registers of a program with every bit set, so that an unwritten float register is NaN."""
    registers = {r for i in code for operand in (*i.operands, i.guard) for r in registers_of(operand)}
    carry = {CARRY: np.zeros((1, 1), np.bool_)}
    return carry | {
        r.name: np.full((1, 1), True if r.width == 0 else (1 << 8 * r.width) - 1, BITS[r.width]) for r in registers
    }
