"""Device memory: allocations, guard bands, poison, and ranges that a launch may touch."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.global_memory import GlobalMemory
from meshgen.emulator.memory import ALIGNMENT, GUARD, Memory

ONE = np.zeros(1, np.int64)  # all accesses are of block 0


def test_allocations_are_aligned_apart_and_poisoned() -> None:
    memory = Memory(1 << 20)
    places = [memory.allocate(nbytes, f"x{nbytes}") for nbytes in (1, 512, 700, 0)]
    assert all(place % ALIGNMENT == 0 and place > 2**32 for place in places)
    assert all(
        second - first >= nbytes + GUARD
        for first, second, nbytes in zip(places, places[1:], (1, 512, 700), strict=False)
    )
    assert (memory.view(places[2], 700) == 0xFF).all()
    assert memory.label_of(places[1] + 511) == "x512" and not memory.label_of(places[1] + 512)


def test_what_is_freed_is_gone_and_found_again() -> None:
    memory = Memory(1 << 20)
    place = memory.allocate(4096)
    memory.view(place, 4096)[:] = 1
    memory.free(place)
    with pytest.raises(DeviceFault, match="address: 1 bytes at"):
        memory.view(place, 1)
    with pytest.raises(DeviceFault, match="no live allocation begins"):
        memory.free(place)
    assert memory.allocate(4096) == place and (memory.view(place, 4096) == 0xFF).all()


def test_a_device_is_full_some_time() -> None:
    memory = Memory(1 << 20)
    first = memory.allocate(1 << 19)
    with pytest.raises(MemoryError, match="are in use"):
        memory.allocate((1 << 19) + 1)
    memory.free(first)
    memory.allocate(1 << 20)
    with pytest.raises(ValueError, match="cannot be allocated"):
        memory.allocate(-1)


@pytest.mark.parametrize(("offset", "nbytes"), [(-1, 4), (97, 4), (100, 1), (0, 101)])
def test_views_stay_inside_one_allocation(offset: int, nbytes: int) -> None:
    memory = Memory(1 << 20)
    place = memory.allocate(100, "weights")
    memory.allocate(100)
    with pytest.raises(DeviceFault) as caught:
        memory.view(place + offset, nbytes)
    assert caught.value.kind == "address"


def test_a_launch_touches_only_its_operands() -> None:
    memory = Memory(1 << 20)
    x, y, other = (memory.allocate(64, name) for name in ("x", "y", "other"))
    seen = GlobalMemory(memory, [(x, 64, False), (y, 60, True)])
    lanes = np.arange(4, dtype=np.uint64) * np.uint64(4)
    assert (seen.load(lanes + np.uint64(x), 4, ONE) == 0xFFFFFFFF).all()
    seen.store(lanes + np.uint64(y), np.arange(4, dtype=np.uint32), ONE)
    assert memory.view(y, 16).view(np.uint32).tolist() == [0, 1, 2, 3]
    for address, size, write, text in ((x, 4, True, "only read"), (other, 4, False, "outside of all operands"),
                                       (y + 56, 8, True, "in 'y'"), (x + 62, 4, False, "in 'x'")):  # fmt: skip
        with pytest.raises(DeviceFault, match=text) as caught:
            seen.positions(np.array([address], np.uint64), size, 1, write=write)
        assert caught.value.kind == "address"


def test_operands_may_overlap_but_an_access_does_not_go_from_one_to_its_neighbour() -> None:
    memory = Memory(1 << 20)
    place = memory.allocate(64)
    overlapping = GlobalMemory(memory, [(place, 40, False), (place + 32, 32, False)])
    overlapping.load(np.array([place + 36], np.uint64), 4, ONE)
    neighbours = GlobalMemory(memory, [(place, 32, False), (place + 32, 32, False)])
    with pytest.raises(DeviceFault):
        neighbours.positions(np.array([place + 30], np.uint64), 4, 1, write=False)


def test_misaligned_addresses_are_refused() -> None:
    memory = Memory(1 << 20)
    place = memory.allocate(64)
    with pytest.raises(DeviceFault) as caught:
        GlobalMemory(memory, None).load(np.array([place, place + 2], np.uint64), 4, ONE)
    assert caught.value.kind == "alignment"
