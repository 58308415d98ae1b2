"""Pending asynchronous operations of a wave: copies, products of matrix units, and the phases of mbarriers."""

from __future__ import annotations

from dataclasses import field

import numpy as np

from meshgen.emulator.types import Array
from meshgen.records import dataclass


@dataclass
class Copy:
    """A `cp.async` of many threads, each with bytes of its own.

    Attributes:
        threads: numbered through all blocks.
        places: in shared memory, by thread.
        sources: addresses in global memory, by thread.
        real: bytes that are copied, by thread; up to `size` zeros follow.
        group: to which of its thread's groups it belongs, by thread.
    """

    threads: Array
    places: Array
    sources: Array
    size: int
    real: Array
    group: Array

    def of(self, chosen: Array) -> Copy:
        """The part of some threads."""
        return Copy(self.threads[chosen], self.places[chosen], self.sources[chosen], self.size, self.real[chosen],
                    self.group[chosen])  # fmt: skip


@dataclass
class Product:
    """A `wgmma.mma_async` of warp groups, numbered through all blocks; `group` as of `Copy`."""

    number: int
    warp_groups: Array
    group: Array


@dataclass
class BulkCopy:
    """Boxes of tensors that threads copy to shared memory, one each.

    Attributes:
        blocks, warps: of each thread; the warp is that of its block.
        places, addresses: of each element [threads, elements], in shared and in global memory.
        inside: which elements lie inside the tensor; the others become `fill`.
        nbytes: what an mbarrier is told when a box is there.
    """

    blocks: Array
    warps: Array
    places: Array
    addresses: Array
    inside: Array
    itemsize: int
    fill: int
    nbytes: int


@dataclass
class BulkStore:
    """Boxes that threads copy to global memory: operation `number` reads shared memory until they have waited for it."""

    number: int
    threads: Array
    group: Array


@dataclass
class Mbarrier:
    """The mbarriers at one address, of all blocks.

    Attributes:
        expected: arrivals that complete a phase; 0 where there is none.
        missing: arrivals that the current phase still needs.
        bytes: that the current phase still waits for; negative where they came before they were expected.
        phase: its number.
        arriving: what those know who have arrived in the phase, by block [blocks, warps], for the check of races.
        known: what those knew who completed the last phase.
        copies: that tell it when they are over.
    """

    expected: Array
    missing: Array
    bytes: Array
    phase: Array
    arriving: Array
    known: Array
    copies: list[BulkCopy] = field(default_factory=list[BulkCopy])


def no_mbarriers(blocks: int, warps: int) -> Mbarrier:
    """An address where no block has an mbarrier yet."""
    expected, missing, nbytes, phase = (np.zeros(blocks, np.int64) for _ in range(4))
    arriving, known = (np.zeros((blocks, warps), np.int32) for _ in range(2))
    return Mbarrier(expected, missing, nbytes, phase, arriving, known)


@dataclass
class UnderWay:
    """All of it.

    Attributes:
        copy_groups: of each thread, how many groups of copies it has committed.
        product_groups: of each warp group, how many groups of products it has committed.
        operations: how many products and bulk stores there were so far.
        bulk_groups: of each thread, how many groups of bulk stores it has committed.
    """

    copy_groups: Array
    product_groups: Array
    bulk_groups: Array
    copies: list[Copy] = field(default_factory=list[Copy])
    products: list[Product] = field(default_factory=list[Product])
    operations: int = 0
    mbarriers: dict[int, Mbarrier] = field(default_factory=dict[int, Mbarrier])
    bulk_stores: list[BulkStore] = field(default_factory=list[BulkStore])


def nothing_under_way(blocks: int, threads: int) -> UnderWay:
    """The state of a wave at its start."""
    every = blocks * threads
    groups = max(1, -(-threads // 128)) * blocks
    return UnderWay(np.zeros(every, np.int64), np.zeros(groups, np.int64), np.zeros(every, np.int64))
