"""What is under way in a wave: copies, products of matrix units, and the phases of mbarriers."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from meshgen.emulator.types import Array


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
    """A copy of a box of one block, to or from shared memory.

    Attributes:
        sources, targets: places in shared memory and addresses, one of them the source, of each element.
        inside: which elements lie inside the tensor.
        nbytes: what an mbarrier is told when it is over.
    """

    block: int
    warp: int
    shared: Array
    addresses: Array
    inside: Array
    itemsize: int
    nbytes: int
    reduction: str = ""


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


@dataclass
class UnderWay:
    """All of it.

    Attributes:
        copy_groups: of each thread, how many groups of copies it has committed.
        product_groups: of each warp group, how many groups of products it has committed.
        products_begun: how many products there were so far.
        bulk_stores: copies from shared to global memory: the thread of each, its group, and whether its source was read.
        bulk_groups: of each thread, how many groups of those it has committed.
    """

    copy_groups: Array
    product_groups: Array
    bulk_groups: Array
    copies: list[Copy] = field(default_factory=list[Copy])
    products: list[Product] = field(default_factory=list[Product])
    products_begun: int = 0
    mbarriers: dict[int, Mbarrier] = field(default_factory=dict[int, Mbarrier])
    bulk_stores: list[tuple[int, int, BulkCopy]] = field(default_factory=list[tuple[int, int, BulkCopy]])


def nothing_under_way(blocks: int, threads: int) -> UnderWay:
    """The state of a wave at its start."""
    every = blocks * threads
    groups = max(1, -(-threads // 128)) * blocks
    return UnderWay(np.zeros(every, np.int64), np.zeros(groups, np.int64), np.zeros(every, np.int64))
