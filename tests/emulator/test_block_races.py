"""Tests of races between blocks of one launch that access the same global memory, in handwritten PTX."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.emulator.faults import DeviceFault
from tests.emulator.snippets import run

BLOCKS = 3
# Addresses of elements: %rd1 at the thread's index in its block, %rd2 at the block index, %rd3 at the global index.
PLACE = "mul.wide.u32 %rd1, %r61, 4;\nadd.s64 %rd1, %rd1, %rd50;\nmul.wide.u32 %rd2, %r60, 4;\nadd.s64 %rd2, %rd2, %rd50;\nmul.wide.u32 %rd3, %r62, 4;\nadd.s64 %rd3, %rd3, %rd50;\nsetp.eq.s32 %p1, %r60, 0;\nsetp.eq.s32 %p2, %r60, 1;\nmov.b32 %r9, global_smem;\n"  # fmt: skip
NEXT = "add.s32 %r1, %r60, 1;\nrem.u32 %r1, %r1, 3;\nmad.lo.s32 %r1, %r1, 32, %r61;\nmul.wide.u32 %rd4, %r1, 4;\nadd.s64 %rd4, %rd4, %rd50;\n"  # fmt: skip
RACES = {
    "two values": "st.global.b32 [%rd1], %r60;",
    "two values at once, of one block": "@%p1 st.global.b32 [%rd50], %r61;",
    "one after the other": "@%p1 st.global.b32 [%rd1], 1;\n@%p2 st.global.b32 [%rd1], 2;",
    "another value after the same": "st.global.b32 [%rd1], 1;\n@%p2 st.global.b32 [%rd1], 2;",
    "read, then written": "@%p1 ld.global.b32 %r1, [%rd1];\n@%p2 st.global.b32 [%rd1], %r1;",
    "read by all, then written by one": "ld.global.b32 %r1, [%rd1];\n@%p1 st.global.b32 [%rd1], %r1;",
    "written, then read": "@%p1 st.global.b32 [%rd1], 1;\n@%p2 ld.global.b32 %r1, [%rd1];",
    "written alike by several, then read by one of them": "@%p1 st.global.b32 [%rd50], 7;\n@%p2 st.global.b32 [%rd50], 7;\n@%p2 ld.global.b32 %r1, [%rd50];",
    "written alike at once, then read by the last": "st.global.b32 [%rd50], 7;\nsetp.eq.s32 %p3, %r60, 2;\n@%p3 ld.global.b32 %r1, [%rd50];",
    "a part of a word": "@%p1 st.global.b32 [%rd1], 1;\n@%p2 ld.global.b8 %r1, [%rd1+3];",
    "of a vector": "@%p1 st.global.v2.b32 [%rd50], {%r61, %r61};\n@%p2 ld.global.b32 %r1, [%rd50+4];",
    "written by the next block": NEXT + "ld.global.b32 %r2, [%rd4];\nst.global.b32 [%rd3], %r2;",
    "copied from": "@%p1 st.global.b32 [%rd1], 1;\n@%p2 cp.async.ca.shared.global [%r9], [%rd1], 4;\ncp.async.wait_all;",
    "an atomic operation and a read": "@%p1 atom.global.add.u32 %r1, [%rd50], 1;\n@%p2 ld.global.b32 %r2, [%rd50];",
    "a write and an atomic operation": "@%p1 st.global.b32 [%rd50], 5;\n@%p2 red.global.add.u32 [%rd50], 1;",
    "by generic addresses": "@%p1 st.b32 [%rd1], 1;\n@%p2 ld.global.b32 %r1, [%rd1];",
}
ORDERED = {
    "one value": "st.global.b32 [%rd1], 7;",
    "one value again": "st.global.b32 [%rd1], 7;\n@%p1 st.global.b32 [%rd1], 7;",
    "read by all": "ld.global.b32 %r1, [%rd1];\nst.global.b32 [%rd51], 3;",
    "own places": "ld.global.b32 %r1, [%rd3];\nst.global.b32 [%rd3], %r1;\nld.global.b32 %r1, [%rd3];",
    "halves of a word": "mul.wide.u32 %rd5, %r60, 2;\nadd.s64 %rd5, %rd5, %rd50;\n@%p1 st.global.b16 [%rd5], 1;\n@%p2 st.global.b16 [%rd5], 2;",
    "atomic operations": "atom.global.add.u32 %r1, [%rd50], 1;\nred.global.add.u32 [%rd50], 1;",
}  # fmt: skip


def start(body: str, blocks: int = BLOCKS, races: bool = True) -> list[np.ndarray]:
    arrays = np.zeros(32 * blocks, np.uint32), np.zeros(1, np.uint32)
    return run(PLACE + body, *arrays, blocks=blocks, shared=1024, races=races)


@pytest.mark.parametrize("name", RACES)
def test_race_between_blocks_is_detected(name: str) -> None:
    start(RACES[name], races=False)
    with pytest.raises(DeviceFault, match=r"nothing orders|different values") as caught:
        start(RACES[name])
    assert (caught.value.kind, caught.value.kernel) == ("race", "snippet")


@pytest.mark.parametrize("name", ORDERED)
def test_benign_accesses_of_blocks_are_accepted(name: str) -> None:
    start(ORDERED[name])


def test_race_between_distant_blocks_is_detected() -> None:
    """The last block runs long after the first."""
    last = 2000
    body = f"@%p1 st.global.b32 [%rd50], 1;\nsetp.eq.s32 %p3, %r60, {last};\n@%p3 ld.global.b32 %r1, [%rd50];"
    with pytest.raises(DeviceFault, match=rf"block {last} reads 4 bytes at 0x\w+, which block 0 writes"):
        start(body, last + 1)
