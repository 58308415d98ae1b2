"""Tests of launches: valid grid and block shapes, memory limits of blocks, and variables of a module."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.launch import MOST_LOCAL, MOST_SHARED, MOST_THREADS, Shape, launch
from meshgen.emulator.memory import Memory
from meshgen.emulator.parse import parse
from tests.emulator.snippets import ptx, run

ONE = (1, 1, 1)


def start(text: str, grid: Shape = ONE, block: Shape = (32, 1, 1), shared_bytes: int = 0) -> None:
    launch(parse(text).entries["snippet"], grid, block, shared_bytes, b"", Memory(1 << 20))


@pytest.mark.parametrize(
    ("grid", "block"),
    [((0, 1, 1), (32, 1, 1)), ((1, 1, 0), (32, 1, 1)), (ONE, (32, 0, 1)), (ONE, (MOST_THREADS, 2, 1))],
)
def test_invalid_grid_or_block_is_rejected(grid: Shape, block: Shape) -> None:
    with pytest.raises(DeviceFault, match="cannot be launched"):
        start(ptx("", 0, block[0] * block[1] * block[2]), grid, block)


def test_thread_count_must_match_kernel_directives() -> None:
    text = ptx("", 0, 64).replace(".reqntid", ".maxntid")
    for threads in (32, 64):
        start(text, block=(threads, 1, 1))
    with pytest.raises(DeviceFault, match="96 threads, not at most 64"):
        start(text, block=(96, 1, 1))
    for threads in (32, 96):
        with pytest.raises(DeviceFault, match=f"{threads} threads, not exactly 64"):
            start(ptx("", 0, 64), block=(threads, 1, 1))
    start(ptx("", 0, MOST_THREADS), block=(MOST_THREADS, 1, 1))


def test_block_memory_limits_are_exact() -> None:
    def local(nbytes: int) -> str:
        return ptx(f".local .align 8 .b8 depot[{nbytes}];", 0)

    start(ptx("", 0), shared_bytes=MOST_SHARED)
    start(local(MOST_LOCAL))
    with pytest.raises(DeviceFault, match=f"{MOST_SHARED + 1} bytes, but has {MOST_SHARED} at most"):
        start(ptx("", 0), shared_bytes=MOST_SHARED + 1)
    with pytest.raises(DeviceFault, match=f"bytes of local memory, but has {MOST_LOCAL} at most"):
        start(local(MOST_LOCAL + 1))


def test_each_thread_has_its_own_local_memory() -> None:
    text = """.local .align 16 .b8 depot[40];
        mov.b64 %rd10, depot;
        mul.wide.u32 %rd1, %r61, 4;
        add.s64 %rd1, %rd1, %rd50;
        st.local.v4.b32 [%rd10], {%r61, %r61, %r61, %r61};
        st.local.v4.b32 [%rd10+16], {%r61, %r61, %r61, %r61};
        st.local.v2.b32 [%rd10+32], {%r61, %r61};
        ld.local.b32 %r1, [%rd10+16];
        ld.local.b32 %r2, [%rd10+36];
        add.s32 %r1, %r1, %r2;
        st.global.b32 [%rd1], %r1;"""
    (result,) = run(text, np.zeros(32, np.uint32))
    np.testing.assert_array_equal(result, 2 * np.arange(32))


@pytest.mark.parametrize(("initial", "expected"), [(" = {5, 6, 7, 8}", 7), ("", 0)])
def test_module_variable_has_initial_value(initial: str, expected: int) -> None:
    body = "mov.b64 %rd10, table;\nld.global.b32 %r1, [%rd10+8];\nst.global.b32 [%rd50], %r1;"
    memory = Memory(1 << 20)
    address = memory.allocate(4, "result")
    text = ptx(body, 1).replace(".extern .shared", f".global .align 4 .b32 table[4]{initial};\n.extern .shared")
    launch(parse(text).entries["snippet"], ONE, (32, 1, 1), 0, address.to_bytes(8, "little"), memory)
    assert memory.view(address, 4).view(np.uint32)[0] == expected
