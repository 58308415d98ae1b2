"""Pending asynchronous operations of a wave: copies, matrix operations, and the phases of mbarriers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from meshgen.emulator.types import Array
from meshgen.identity_dict import IdentityDict


@dataclass
class Copy:
    """A `cp.async` instruction of several threads, each of which copies other bytes.

    Attributes:
        threads: indices of the threads, counted through all blocks.
        positions: destination of each thread in shared memory, in bytes through all blocks.
        sources: address of each thread in global memory.
        size: number of bytes that each thread writes.
        real: number of bytes that each thread reads from the source; the rest of `size` is filled with zeros.
        group: for each thread, the index of its commit group that contains the copy.
    """

    threads: Array
    positions: Array
    sources: Array
    size: int
    real: Array
    group: Array

    def of(self, chosen: Array) -> Copy:
        """Return the part of the copy that belongs to the selected threads."""
        return Copy(self.threads[chosen], self.positions[chosen], self.sources[chosen], self.size, self.real[chosen],
                    self.group[chosen])  # fmt: skip


@dataclass
class Product:
    """A pending `wgmma.mma_async` instruction of several warp groups.

    Attributes:
        number: index of the asynchronous operation.
        warp_groups: indices of the warp groups, counted through all blocks.
        group: for each warp group, the index of its commit group that contains the operation.
    """

    number: int
    warp_groups: Array
    group: Array


@dataclass
class BulkCopy:
    """Tensor tiles that threads copy to shared memory, one tile per thread.

    Attributes:
        blocks, warps: block and warp of each thread; the warp index counts within the block.
        positions: position in shared memory of each segment of 16 bytes [threads, segments].
        addresses: address in global memory of each element [threads, elements].
        inside: mask of the elements inside the tensor; elements outside are set to `fill`.
        nbytes: bytes of a tile, by which the copy completes the `expect_tx` count of its mbarrier.
    """

    blocks: Array
    warps: Array
    positions: Array
    addresses: Array
    inside: Array
    itemsize: int
    fill: int
    nbytes: int


@dataclass
class BulkStore:
    """Tensor tiles that threads copy to global memory.

    Operation `number` may read shared memory until each of `threads` has waited for the commit group `group` of the
    thread.
    """

    number: int
    threads: Array
    group: Array


@dataclass
class Mbarrier:
    """The mbarriers of all blocks at one shared-memory address.

    Attributes:
        expected: arrivals that complete a phase; 0 for a block without an mbarrier at this address.
        missing: arrivals that the current phase still needs.
        bytes: bytes that the current phase still waits for; negative if bytes arrived before `expect_tx`.
        phase: index of the current phase.
        arriving: joined vector clocks [blocks, warps] of the warps that have arrived in this phase, for race checks.
        known: joined vector clocks of the previous phase.
        copies: copies that will signal the mbarrier.
    """

    expected: Array
    missing: Array
    bytes: Array
    phase: Array
    arriving: Array
    known: Array
    copies: list[BulkCopy] = field(default_factory=list[BulkCopy])


def uninitialized_mbarriers(blocks: int, warps: int) -> Mbarrier:
    """Return the `Mbarrier` state of an address where no block has initialized an mbarrier."""
    expected, missing, nbytes, phase = (np.zeros(blocks, np.int64) for _ in range(4))
    arriving, known = (np.zeros((blocks, warps), np.int32) for _ in range(2))
    return Mbarrier(expected, missing, nbytes, phase, arriving, known)


@dataclass
class PendingRegisters:
    """Registers that matrix operations have not written yet.

    `numbers` maps a register name to the index of the pending operation for each warp group; 0 means that none is
    pending.
    """

    numbers: dict[str, Array] = field(default_factory=dict[str, Array])

    def begin(self, names: Iterable[str], number: int, warp_groups: Array, count: int) -> None:
        """Mark the registers as pending results of operation `number` in the given warp groups.

        `count` is the number of all warp groups of the wave.
        """
        no_operations = np.zeros(count, np.int64)
        updated_arrays = IdentityDict[Array, Array]()
        for name in names:  # the registers of one operation mostly share an array, which is updated once
            before = self.numbers.get(name, no_operations)
            if before not in updated_arrays:
                updated_arrays[before] = before.copy()
                updated_arrays[before][warp_groups] = number
            self.numbers[name] = updated_arrays[before]

    def keep(self, products: Iterable[Product]) -> None:
        """Drop the pending registers of all matrix operations except `products`."""
        products, updated_arrays = list(products), IdentityDict[Array, Array]()
        for name, before in list(self.numbers.items()):
            if before not in updated_arrays:
                after = np.zeros_like(before)
                for product in products:
                    still_pending = product.warp_groups[before[product.warp_groups] == product.number]
                    after[still_pending] = product.number
                updated_arrays[before] = after
            self.numbers[name] = updated_arrays[before]
            if not self.numbers[name].any():
                del self.numbers[name]

    def rename(self, source: str, target: str, warp_groups: Array) -> None:
        """After a move from register `source` to `target`: mark `target` as pending in the given warp groups if
        `source` is.
        """
        if source not in self.numbers and target not in self.numbers:
            return
        shape_source = self.numbers.get(source, self.numbers.get(target))
        assert shape_source is not None
        after = self.numbers.get(target, np.zeros_like(shape_source)).copy()
        after[warp_groups] = self.numbers[source][warp_groups] if source in self.numbers else 0
        self.numbers[target] = after
        if not after.any():
            del self.numbers[target]

    def has(self, names: Iterable[str], warp_groups: Array) -> bool:
        """Whether any of the registers is pending in any of the warp groups."""
        written = IdentityDict(
            (self.numbers[name], name) for name in names if name in self.numbers
        )  # one entry per array, because registers share arrays
        return any(operations[warp_groups].any() for operations in written)


@dataclass
class PendingOperations:
    """All pending asynchronous operations of a wave.

    Attributes:
        copy_groups: number of `cp.async` groups that each thread has committed.
        product_groups: number of `wgmma` groups that each warp group has committed.
        bulk_groups: number of bulk store groups that each thread has committed.
        operations: number of matrix operations and bulk stores issued so far.
    """

    copy_groups: Array
    product_groups: Array
    bulk_groups: Array
    copies: list[Copy] = field(default_factory=list[Copy])
    products: list[Product] = field(default_factory=list[Product])
    operations: int = 0
    mbarriers: dict[int, Mbarrier] = field(default_factory=dict[int, Mbarrier])
    bulk_stores: list[BulkStore] = field(default_factory=list[BulkStore])


def no_pending_operations(blocks: int, threads: int) -> PendingOperations:
    """Return the state of pending operations at the start of a wave."""
    all_threads = blocks * threads
    groups = max(1, -(-threads // 128)) * blocks
    return PendingOperations(
        np.zeros(all_threads, np.int64), np.zeros(groups, np.int64), np.zeros(all_threads, np.int64)
    )
