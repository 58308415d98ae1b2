"""The blocks that run at once: their registers, shared memory, and which of their threads still live.

A value of all threads is an array that broadcasts to [blocks, threads]: what is equal in all blocks is [1, threads], what is
equal in a block is [blocks, 1]. Registers hold bits: unsigned integers of their width, or booleans.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from meshgen.emulator.asynchronous import UnderWay, WrittenLater
from meshgen.emulator.global_memory import GlobalMemory
from meshgen.emulator.program import Entry, Instruction, Operand, Register, Sink, registers_of
from meshgen.emulator.shared_memory import SharedMemory
from meshgen.emulator.types import BITS, Array

WARP = 32  # threads (PTX ISA 8.7, "WARP_SZ")
WARPS = 4  # of a warp group
CARRY = "%cc"  # the name of the carry among registers
Mask = Array | None  # which threads; None for all
Action = Callable[["Wave", Mask], None]


@dataclass
class Wave:
    """Blocks of one launch that run together.

    Attributes:
        numbers: of the blocks, in the order of the grid.
        alive: the threads that have not ended; None while all live.
        local: bytes of local memory [blocks * threads, bytes].
        sums: by the first of their registers, what these held when a product wrote them, and the array whose parts they are.
        pending: registers that an asynchronous operation still writes.
        issued: instructions so far.
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
    under_way: UnderWay
    specials: dict[str, Array] = field(default_factory=dict[str, Array])
    alive: Mask = None
    pending: WrittenLater = field(default_factory=WrittenLater)
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

    def numbers_of(self, lanes: Array | None) -> Array:
        """The number of each thread's block, for threads [blocks, threads]; None: all of them, as [blocks, 1]."""
        return self.numbers[:, None] if lanes is None else self.numbers[np.nonzero(lanes)[0]]

    def full(self, value: Array) -> Array:
        """A value with an element for every thread."""
        shape = self.shape
        return value if value.shape == shape else np.broadcast_to(value, shape)

    def by_warp(self, value: Array) -> Array:
        """A value as an array that broadcasts to [blocks, warps, 32]."""
        return value[..., None] if value.shape[1] == 1 else value.reshape(len(value), self.warps, WARP)

    def lanes_by_warp(self, mask: Mask) -> Array:
        """The threads of a group [blocks, warps, 32]."""
        return self.lanes(mask).reshape(self.blocks, self.warps, WARP)

    def warps_of(self, lanes: Array) -> Array:
        """Which warps [blocks, warps] have one of these threads [blocks, threads] at least."""
        return np.asarray(lanes.reshape(self.blocks, self.warps, WARP).any(2))

    def from_warps(self, value: Array) -> Array:
        """The inverse of `by_warp`; `value` broadcasts to [blocks, warps, 32]."""
        whole = np.broadcast_to(value, (len(value), self.warps, WARP))
        return whole.reshape(len(value), self.threads)

    def warp_groups_of(self, mask: Mask) -> Array:
        """Numbers, through all blocks of whole warp groups, of those that have one of these threads."""
        return np.flatnonzero(self.lanes(mask).reshape(-1, WARPS * WARP).any(1))

    def lanes(self, mask: Mask) -> Array:
        """The mask as [blocks, threads], threads that have ended left out."""
        whole = self.alive if mask is None else mask
        return np.ones(self.shape, np.bool_) if whole is None else np.broadcast_to(whole, self.shape)

    def is_all(self, mask: Mask) -> bool:
        """Whether the mask has every thread that lives."""
        return mask is None or mask is self.alive

    def put(self, register: Operand, bits: Array, mask: Mask) -> None:
        """Write bits of the register's width."""
        if isinstance(register, Sink):
            return
        assert isinstance(register, Register)
        if not self.is_all(mask):
            bits = np.where(mask, bits, self.registers[register.name])  # type: ignore[arg-type]
        self.registers[register.name] = bits


def initial_registers(code: Sequence[Instruction]) -> dict[str, Array]:
    """All registers of a program, with every bit set: unwritten registers are NaN."""
    found = {r for i in code for operand in (*i.operands, i.guard) for r in registers_of(operand)}
    carry = {CARRY: np.zeros((1, 1), np.bool_)}
    return carry | {
        r.name: np.full((1, 1), True if r.width == 0 else (1 << 8 * r.width) - 1, BITS[r.width]) for r in found
    }
