"""Tests of device memory: allocations, guard bands, poison, and the ranges that a launch may access."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import GlobalMemory
from meshgen.emulator.memory import ALIGNMENT, GUARD, Memory

ONE = np.zeros(1, np.int64)  # block index 0 for every access


def test_allocations_are_aligned_guarded_and_poisoned() -> None:
    memory = Memory(1 << 20)
    addresses = [memory.allocate(nbytes, f"x{nbytes}") for nbytes in (1, 512, 700, 0)]
    assert all(address % ALIGNMENT == 0 and address > 2**32 for address in addresses)
    assert all(
        second - first >= nbytes + GUARD
        for first, second, nbytes in zip(addresses, addresses[1:], (1, 512, 700), strict=False)
    )
    assert (memory.view(addresses[2], 700) == 0xFF).all()
    assert memory.label_of(addresses[1] + 511) == "x512" and not memory.label_of(addresses[1] + 512)


def test_freed_memory_is_inaccessible_and_reused() -> None:
    memory = Memory(1 << 20)
    address = memory.allocate(4096)
    memory.view(address, 4096)[:] = 1
    memory.free(address)
    with pytest.raises(DeviceFault, match="address: 1 bytes at"):
        memory.view(address, 1)
    with pytest.raises(DeviceFault, match="no live allocation begins"):
        memory.free(address)
    assert memory.allocate(4096) == address and (memory.view(address, 4096) == 0xFF).all()


def test_allocation_beyond_capacity_fails() -> None:
    memory = Memory(1 << 20)
    first = memory.allocate(1 << 19)
    with pytest.raises(MemoryError, match="are in use"):
        memory.allocate((1 << 19) + 1)
    memory.free(first)
    memory.allocate(1 << 20)
    with pytest.raises(ValueError, match="cannot be allocated"):
        memory.allocate(-1)


@pytest.mark.parametrize(("offset", "nbytes"), [(-1, 4), (97, 4), (100, 1), (0, 101)])
def test_view_across_allocation_bounds_is_rejected(offset: int, nbytes: int) -> None:
    memory = Memory(1 << 20)
    address = memory.allocate(100, "weights")
    memory.allocate(100)
    with pytest.raises(DeviceFault) as caught:
        memory.view(address + offset, nbytes)
    assert caught.value.kind == "address"


def test_launch_accesses_only_its_operands() -> None:
    memory = Memory(1 << 20)
    x, y, other = (memory.allocate(64, name) for name in ("x", "y", "other"))
    accessible = GlobalMemory(memory, [(x, 64, False), (y, 60, True)])
    lanes = np.arange(4, dtype=np.uint64) * np.uint64(4)
    assert (accessible.load(lanes + np.uint64(x), 4, ONE) == 0xFFFFFFFF).all()
    accessible.store(lanes + np.uint64(y), np.arange(4, dtype=np.uint32), ONE)
    assert memory.view(y, 16).view(np.uint32).tolist() == [0, 1, 2, 3]
    for address, size, write, text in ((x, 4, True, "only read"), (other, 4, False, "outside of all operands"),
                                       (y + 56, 8, True, "in 'y'"), (x + 62, 4, False, "in 'x'")):  # fmt: skip
        with pytest.raises(DeviceFault, match=text) as caught:
            accessible.positions(np.array([address], np.uint64), size, 1, write=write)
        assert caught.value.kind == "address"


def test_access_across_adjacent_operands_is_rejected() -> None:
    memory = Memory(1 << 20)
    address = memory.allocate(64)
    overlapping = GlobalMemory(memory, [(address, 40, False), (address + 32, 32, False)])
    overlapping.load(np.array([address + 36], np.uint64), 4, ONE)
    adjacent = GlobalMemory(memory, [(address, 32, False), (address + 32, 32, False)])
    with pytest.raises(DeviceFault):
        adjacent.positions(np.array([address + 30], np.uint64), 4, 1, write=False)


def test_misaligned_address_is_rejected() -> None:
    memory = Memory(1 << 20)
    address = memory.allocate(64)
    with pytest.raises(DeviceFault) as caught:
        GlobalMemory(memory, None).load(np.array([address, address + 2], np.uint64), 4, ONE)
    assert caught.value.kind == "alignment"
