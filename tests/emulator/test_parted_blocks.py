"""Tests of matrix operations after blocks diverge: an operation is finished only in the blocks that have waited for it."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.emulator.asynchronous import PendingRegisters, Product
from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.shared_memory import SharedMemory

NONE, FIRST, SECOND, BOTH = (np.array(numbers, np.int64) for numbers in ([], [0], [1], [0, 1]))


def test_registers_stay_pending_in_warp_groups_that_have_not_waited() -> None:
    later = PendingRegisters()
    later.begin(["a", "b"], 1, BOTH, 2)
    later.keep([Product(1, SECOND, NONE)])
    assert not later.has(["a", "b", "c"], FIRST) and later.has(["c", "b"], SECOND)
    later.begin(["a"], 2, FIRST, 2)
    assert later.has(["a"], FIRST) and later.has(["a"], SECOND) and not later.has(["b"], FIRST)
    later.keep([Product(2, FIRST, NONE)])
    assert later.has(["a"], FIRST) and not later.has(["a", "b"], SECOND)
    later.keep([])
    assert not later.numbers


def test_renamed_registers_are_pending_like_their_source() -> None:
    later = PendingRegisters()
    later.begin(["a"], 1, BOTH, 2)
    later.rename("a", "b", SECOND)
    assert later.has(["b"], SECOND) and not later.has(["b"], FIRST)
    later.rename("c", "b", SECOND)
    assert not later.has(["b"], BOTH)


def test_shared_memory_is_writable_in_blocks_that_have_waited() -> None:
    memory = SharedMemory(2, 4, 64, 4, races=False)
    addresses, warps = memory.first + 16, np.zeros((2, 1), np.int64)
    memory.begin_operation(1)
    memory.unit_reads(addresses, 16, warps, 1)
    value = np.zeros((1, 1), np.uint32)
    memory.end_operation(1, FIRST)
    memory.store(addresses[:1], value, warps[:1])
    with pytest.raises(DeviceFault, match="matrix unit may still read it"):
        memory.store(addresses[1:], value, warps[1:])
    memory.end_operation(1)
    memory.store(addresses, np.zeros((2, 1), np.uint32), warps)
