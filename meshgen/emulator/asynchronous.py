"""Pending asynchronous operations of a wave: copies, products of matrix units, and the phases of mbarriers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from meshgen.emulator.types import Array
from meshgen.identity_dict import IdentityDict


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
        places: of each segment of 16 bytes in shared memory [threads, segments].
        addresses: of each element in global memory [threads, elements].
        inside: which elements lie inside the tensor; the others become `fill`.
        nbytes: what is reported to an mbarrier when a box has arrived.
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
class WrittenLater:
    """Registers that products of warp groups still write: for each name the operation's number, by warp group, or 0."""

    numbers: dict[str, Array] = field(default_factory=dict[str, Array])

    def begin(self, names: Iterable[str], number: int, warp_groups: Array, count: int) -> None:
        """Operation `number` of some of `count` warp groups writes these registers from now on."""
        nothing = np.zeros(count, np.int64)
        changed = IdentityDict[Array, Array]()
        for name in names:  # most of them share an array
            before = self.numbers.get(name, nothing)
            if before not in changed:
                changed[before] = before.copy()
                changed[before][warp_groups] = number
            self.numbers[name] = changed[before]

    def keep(self, products: Iterable[Product]) -> None:
        """Only these products are not over."""
        products, kept = list(products), IdentityDict[Array, Array]()
        for name, before in list(self.numbers.items()):
            if before not in kept:
                after = np.zeros_like(before)
                for product in products:
                    same = product.warp_groups[before[product.warp_groups] == product.number]
                    after[same] = product.number
                kept[before] = after
            self.numbers[name] = kept[before]
            if not self.numbers[name].any():
                del self.numbers[name]

    def rename(self, source: str, target: str, warp_groups: Array) -> None:
        """A register has another name in some warp groups."""
        if source not in self.numbers and target not in self.numbers:
            return
        like = self.numbers.get(source, self.numbers.get(target))
        assert like is not None
        after = self.numbers.get(target, np.zeros_like(like)).copy()
        after[warp_groups] = self.numbers[source][warp_groups] if source in self.numbers else 0
        self.numbers[target] = after
        if not after.any():
            del self.numbers[target]

    def has(self, names: Iterable[str], warp_groups: Array) -> bool:
        """Whether one of the registers is still written in one of the warp groups."""
        written = IdentityDict(
            (self.numbers[name], name) for name in names if name in self.numbers
        )  # most share an array
        return any(each[warp_groups].any() for each in written)


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
