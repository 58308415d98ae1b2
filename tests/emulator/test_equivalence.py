"""Tests of proofs that a changed instruction has no effect. A change with a visible effect must never be proven."""

from __future__ import annotations

import random

import numpy as np
import pytest

from meshgen.emulator.faults import DeviceFault
from meshgen.emulator.parse import parse
from tests.emulator.equivalence import same
from tests.emulator.mutate_ptx import mutant, sites, verdict
from tests.emulator.snippets import ptx, run
from tests.emulator.test_kernels import case, exact_product, plain_product, softmax, squares, transposed_sum

WORDS = np.arange(128, dtype=np.uint32)
THREADS = 64
# %rd1, %rd2: addresses of the thread's element in the first and second array; %r8: address of a word in shared memory;
# %p1: whether the thread is in the first warp.
PLACE = "mul.wide.u32 %rd3, %r61, 4;\nadd.s64 %rd1, %rd3, %rd50;\nadd.s64 %rd2, %rd3, %rd51;\nmov.b32 %r9, global_smem;\nshl.b32 %r8, %r61, 2;\nadd.s32 %r8, %r8, %r9;\nsetp.lt.u32 %p1, %r61, 32;\nmov.b32 %r3, 0;\n"  # fmt: skip
OWN = "ld.global.b32 %r1, [%rd1];\nst.shared.b32 [%r8], %r1;\nbar.sync 0;\nld.shared.b32 %r2, [%r8];\nst.global.b32 [%rd2], %r2;"  # fmt: skip
PART = "ld.global.b32 %r1, [%rd1];\n@%p1 ld.global.b32 %r3, [%rd1+128];\nselp.b32 %r2, %r3, %r1, %p2;\nst.global.b32 [%rd2], %r2;"  # fmt: skip
STAGES = "st.shared.b32 [%r8], 7;\ncp.async.ca.shared.global [%r8], [%rd1], 4;\ncp.async.wait_all;\n{rest}ld.shared.b32 %r2, [%r8];\nst.global.b32 [%rd2], %r2;"  # fmt: skip
# Value: PTX code, the text to replace in it, and the replacement.
PROVEN = {
    "a barrier between a thread and itself": (OWN, "bar.sync 0;", ""),
    "a wait for what is not read": ("cp.async.ca.shared.global [%r8], [%rd1], 4;\ncp.async.wait_all;\nst.global.b32 [%rd2], 1;", "cp.async.wait_all;", ""),
    "a comparison that never is equal": ("setp.lt.u32 %p2, %r61, 64;\n@%p2 st.global.b32 [%rd2], 1;", "setp.lt", "setp.le"),
    "a guard of what nobody does": ("setp.lt.u32 %p2, %r61, 64;\n@!%p2 st.global.b32 [%rd2], 1;", "@!%p2 st.global.b32 [%rd2], 1;", ""),
    "a jump that all or nobody takes": ("setp.gt.u32 %p2, %r61, 64;\n@%p2 bra over;\nst.global.b32 [%rd2], 1;\nover:", "setp.gt", "setp.ge"),
    "bits that are shifted out": ("and.b32 %r1, %r61, 60;\nshr.u32 %r1, %r1, 3;\nst.global.b32 [%rd2], %r1;", "60", "56"),
    "bits that only a comparison sees": ("or.b32 %r1, %r61, 512;\nsetp.lt.u32 %p2, %r1, 100;\n@%p2 st.global.b32 [%rd2], %r1;", "512", "513"),
    "a step of a loop whose sum is not used": ("mov.b32 %r4, 0;\nmov.b32 %r5, 0;\nloop: add.s32 %r4, %r4, 1;\nadd.s32 %r5, %r5, 2;\nsetp.lt.u32 %p2, %r4, 3;\n@%p2 bra loop;\nshr.u32 %r5, %r5, 6;\n@%p1 st.global.b32 [%rd2], %r5;", "%r5, 2;", "%r5, 3;"),
    "a limit that is not reached": ("min.u32 %r1, %r61, 100;\nst.global.b32 [%rd2], %r1;", "100", "101"),
    "an address that is not used": ("add.s64 %rd4, %rd1, 4;\n@!%p1 ld.global.b32 %r1, [%rd4];\nst.global.b32 [%rd2], 1;", "%rd1, 4;", "%rd1, 8;"),
    "a value that is not chosen": ("setp.lt.u32 %p2, %r61, 0;\n" + PART, "+128", "+64"),
    "a value of a thread that stores nothing": ("ld.global.b32 %r1, [%rd1];\n@!%p1 ld.global.b32 %r1, [%rd1+4];\n@%p1 st.global.b32 [%rd2], %r1;", "+4", "+8"),
    "a copy over which is written": (STAGES.format(rest="st.shared.b32 [%r8], 9;\n"), "cp.async.ca.shared.global [%r8], [%rd1], 4;", ""),
}  # fmt: skip
NOT_PROVEN = {
    "a barrier beside global memory that comes back": ("st.global.b32 [%rd2], 1;\nbar.sync 0;\nld.global.b32 %r1, [%rd2];", "bar.sync 0;", ""),
    "a comparison of data": ("ld.global.b32 %r1, [%rd1];\nsetp.lt.u32 %p2, %r1, 500;\nselp.b32 %r2, 1, 2, %p2;\nst.global.b32 [%rd2], %r2;", "setp.lt", "setp.le"),
    "a jump by data": ("ld.global.b32 %r1, [%rd1];\nsetp.gt.u32 %p2, %r1, 500;\n@%p2 bra over;\nst.global.b32 [%rd2], 1;\nover:", "mov.b32 %r3, 0;", "mov.b32 %r3, 1;"),
    "an address of data": ("ld.global.b32 %r1, [%rd1];\nadd.s32 %r1, %r1, %r9;\nld.shared.b8 %r2, [%r1];\nst.global.b32 [%rd2], 1;", "mov.b32 %r3, 0;", "mov.b32 %r3, 1;"),
    "a value that is chosen": ("setp.lt.u32 %p2, %r61, 1;\n" + PART, "+128", "+64"),
    "a value that data choose": ("ld.global.b32 %r4, [%rd1];\nsetp.gt.u32 %p2, %r4, 500;\n" + PART, "+128", "+64"),
    "a copy that is read": (STAGES.format(rest=""), "cp.async.ca.shared.global [%r8], [%rd1], 4;", ""),
    "a copy from elsewhere": (STAGES.format(rest=""), "[%rd1]", "[%rd1+4]"),
    "a value that a neighbor gets": ("ld.global.b32 %r1, [%rd1];\n@%p1 ld.global.b32 %r1, [%rd1+128];\nshfl.sync.idx.b32 %r2, %r1, 3, 31, -1;\nst.global.b32 [%rd2], %r2;", "+128", "+64"),
    "a store": ("@%p1 st.global.b32 [%rd2], 1;", "@%p1", "@!%p1"),
    "a shared store": ("@%p1 st.shared.b32 [%r8], 1;\nld.shared.b32 %r1, [%r8];\nst.global.b32 [%rd2], %r1;", "@%p1", "@!%p1"),
    "a step of a loop": ("mov.b32 %r4, 0;\nmov.b32 %r5, 0;\nloop: add.s32 %r4, %r4, 1;\nadd.s32 %r5, %r5, 2;\nsetp.lt.u32 %p2, %r4, 3;\n@%p2 bra loop;\n@%p1 st.global.b32 [%rd2], %r5;", "%r5, 2;", "%r5, 3;"),
    "what addresses a load": ("add.s64 %rd4, %rd1, 4;\nld.global.b32 %r1, [%rd4];\nst.global.b32 [%rd2], %r1;", "%rd1, 4;", "%rd1, 8;"),
}  # fmt: skip


def proven(body: str, old: str, new: str) -> bool:
    text = PLACE + body
    other = PLACE + body.replace(old, new, 1) if old in body else PLACE.replace(old, new, 1) + body
    assert text != other
    original, changed = (parse(ptx(text_, 2, THREADS)).entries["snippet"] for text_ in (text, other))
    return same(original, changed, lambda: run(text, WORDS, WORDS, threads=THREADS, shared=1024, races=False))


@pytest.mark.parametrize("name", PROVEN)
def test_change_without_effect_is_proven(name: str) -> None:
    assert proven(*PROVEN[name])


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_change_with_possible_effect_is_not_proven(name: str) -> None:
    assert not proven(*NOT_PROVEN[name])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_mutant_with_different_results_is_not_proven(arch: str) -> None:
    """This tries random mutants of generated kernels."""
    rng = random.Random(7)
    checked = 0
    for make in (softmax, squares, exact_product, plain_product, transposed_sum):
        kernel = case(make, arch)
        for kind, number in rng.sample(list(sites(kernel.ptx)), 6):
            text = mutant(kernel.ptx, kind, number, rng)
            if text != kernel.ptx and verdict(kernel, text) == "numbers":
                checked += 1
                assert not same(kernel.entry(), kernel.entry(text), lambda: kernel.run(races=False)), (kind, number)  # noqa: B023
    assert checked >= 7


def test_fault_during_proof_is_raised() -> None:
    with pytest.raises(DeviceFault):
        proven("ld.global.b32 %r1, [%rd1+4096];", "4096", "8192")
