"""Tests of the faults that the emulated GPU detects, each in a few instructions, and of corrected instructions."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.emulator.faults import KINDS, DeviceFault
from meshgen.emulator.launch import launch
from meshgen.emulator.memory import Memory
from meshgen.emulator.parse import parse
from meshgen.errors import UsageError
from tests.emulator.snippets import ptx, run

WORDS = np.arange(64, dtype=np.uint32)
PLACE = "mul.wide.u32 %rd1, %r61, 4;\nadd.s64 %rd1, %rd1, %rd50;\nmov.b32 %r9, global_smem;\nshl.b32 %r8, %r61, 2;\nadd.s32 %r8, %r8, %r9;\n"  # fmt: skip
SHARED = 1024
COPY = PLACE + "cp.async.ca.shared.global [%r8], [%rd1], 4;\ncp.async.commit_group;\n{wait}\n{barrier}\nld.shared.b32 %r1, [{from_}];\nst.global.b32 [%rd1], %r1;"  # fmt: skip
# Threads write a word to shared memory and read the word of a thread in the other warp.
EXCHANGE = PLACE + "ld.global.b32 %r1, [%rd1];\nst.shared.b32 [%r8], %r1;\n{barrier}\nxor.b32 %r7, %r8, 128;\nld.shared.b32 %r2, [%r7];\nst.global.b32 [%rd1], %r2;"  # fmt: skip
FAULTS = {
    "behind an operand": ("address", PLACE + "ld.global.b32 %r1, [%rd1+4];", {}),
    "in front of an operand": ("address", PLACE + "st.global.b32 [%rd1+-4], %r61;", {}),
    "written though only read": ("address", PLACE + "st.global.b32 [%rd1], %r61;", {"writable": [False]}),
    "no pointer at all": ("address", "mov.b64 %rd1, 0;\nld.global.b32 %r1, [%rd1];", {}),
    "a misaligned vector": ("alignment", PLACE + "ld.global.v2.b32 {%r1, %r2}, [%rd50+4];", {}),
    "a misaligned shared address": ("alignment", PLACE + "ld.shared.b32 %r1, [%r9+2];", {}),
    "behind shared memory": ("shared memory", PLACE + "st.shared.b32 [%r8+1020], %r61;", {}),
    "in front of shared memory": ("shared memory", PLACE + "ld.shared.b32 %r1, [%r8+-4];", {}),
    "a dropped barrier": ("race", EXCHANGE.format(barrier=""), {}),
    "two values at once": ("race", PLACE + "st.shared.b32 [%r9], %r61;", {}),
    "read, then written": ("race", PLACE + "st.shared.b32 [%r8], 0;\nbar.sync 0;\nxor.b32 %r7, %r8, 128;\nld.shared.b32 %r2, [%r7];\nst.shared.b32 [%r8], %r2;", {}),
    "a barrier for some": ("barrier", "setp.lt.u32 %p1, %r61, 32;\n@%p1 bar.sync 0;\n@!%p1 bar.sync 1;", {}),
    "a barrier for a part of a warp": ("barrier", "setp.lt.u32 %p1, %r61, 8;\n@%p1 bar.sync 0;", {}),
    "a barrier that does not exist": ("barrier", "bar.sync 16, 64;", {}),
    "a shuffle with who is not there": ("barrier", "setp.lt.u32 %p1, %r61, 8;\n@%p1 shfl.sync.bfly.b32 %r1, %r61, 1, 31, -1;", {}),
    "no mbarrier": ("barrier", "mov.b32 %r9, global_smem;\nmbarrier.arrive.shared.b64 _, [%r9];", {}),
    "an mbarrier that nobody completes": ("barrier", "mov.b32 %r9, global_smem;\nsetp.eq.s32 %p1, %r61, 0;\n@%p1 mbarrier.init.shared.b64 [%r9], 1;\nbar.sync 0;\nwait: mbarrier.try_wait.parity.shared.b64 %p2, [%r9], 0;\n@!%p2 bra wait;", {}),
    "read before the copy is there": ("async copy", COPY.format(wait="", barrier="bar.sync 0;", from_="%r8"), {}),
    "too few groups waited for": ("async copy", COPY.format(wait="cp.async.wait_group 1;", barrier="bar.sync 0;", from_="%r8"), {}),
    "overwritten while copied": ("async copy", COPY.format(wait="st.shared.b32 [%r8], 0;", barrier="", from_="%r8"), {}),
    "an instruction that there is not": ("opcode", "frobnicate.f32 %r1, %r2;", {}),
    "a modifier that there is not": ("opcode", "add.rn.approx.f32 %r1, %r2, %r3;", {}),
    "an operand of another width": ("opcode", "add.s64 %rd1, %r1, %rd2;", {}),
    "a result that is wider than its register": ("opcode", "ld.global.b64 %r1, [%rd50];", {}),
    "a trap": ("opcode", "trap;", {}),
    "no end": ("time", "again: bra again;", {}),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_fault_is_detected(name: str) -> None:
    kind, body, options = FAULTS[name]
    with pytest.raises(DeviceFault) as caught:
        run(body, WORDS, threads=64, shared=SHARED, **options)
    assert (caught.value.kind, caught.value.kernel) == (kind, "snippet")
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0608" and "kernel 'snippet'" in fault.message and caught.value.exit_code == 4
    assert caught.value.instruction.split()[0] in body


def test_launch_beyond_gpu_limits_is_rejected() -> None:
    with pytest.raises(DeviceFault, match="has 232448 at most") as caught:
        run("", WORDS, shared=1 << 40)
    assert caught.value.kind == "shared memory"
    with pytest.raises(DeviceFault, match="bytes of local memory"):
        run(".local .align 8 .b8 depot[99999999];", WORDS)
    with pytest.raises(DeviceFault, match="exactly 32"):
        entry = parse(ptx("", 0)).entries["snippet"]
        launch(entry, (1, 1, 1), (64, 1, 1), 0, b"", Memory(1 << 20))
    with pytest.raises(DeviceFault, match="0 bytes of parameters were given, but the kernel takes 8"):
        launch(parse(ptx("", 1)).entries["snippet"], (1, 1, 1), (32, 1, 1), 0, b"", Memory(1 << 20))


def test_every_fault_kind_is_covered() -> None:
    between_devices = {"deadlock", "collective"}  # the emulated driver and NCCL report these
    assert {kind for kind, _, _ in FAULTS.values()} == set(KINDS) - between_devices


@pytest.mark.parametrize(
    "barrier", ["bar.sync 0;", "barrier.sync.aligned 0;", "bar.sync 3, 64;", "bar.arrive 1, 64;\nbar.sync 0;"]
)
def test_barrier_orders_warps(barrier: str) -> None:
    (result,) = run(EXCHANGE.format(barrier=barrier), WORDS, threads=64, shared=SHARED)
    np.testing.assert_array_equal(result, np.roll(WORDS, 32))


def test_race_is_ignored_without_check() -> None:
    (result,) = run(EXCHANGE.format(barrier=""), WORDS, threads=64, shared=SHARED, races=False)
    np.testing.assert_array_equal(result, np.roll(WORDS, 32))


def test_async_copy_is_visible_after_wait() -> None:
    text = COPY.format(wait="cp.async.wait_group 0;", barrier="bar.sync 0;", from_="%r8")
    np.testing.assert_array_equal(run(text, WORDS, threads=64, shared=SHARED)[0], WORDS)


def test_async_copy_is_visible_only_to_own_warp() -> None:
    own_element = COPY.format(wait="cp.async.wait_all;", barrier="", from_="%r8")
    np.testing.assert_array_equal(run(own_element, WORDS, threads=64, shared=SHARED)[0], WORDS)
    other = COPY.format(wait="cp.async.wait_all;\nxor.b32 %r8, %r8, 128;", barrier="", from_="%r8")
    with pytest.raises(DeviceFault, match="warp") as caught:
        run(other, WORDS, threads=64, shared=SHARED)
    assert caught.value.kind == "race"


def test_named_barrier_orders_producer_and_consumer_warps() -> None:
    """The first warp produces and the second consumes; no other warps use the barrier."""
    text = (
        PLACE
        + """setp.ge.u32 %p1, %r61, 32;
        @%p1 bra consumer;
        st.shared.b32 [%r8], %r61;
        bar.arrive 1, 64;
        ret;
        consumer: bar.sync 1, 64;
        ld.shared.b32 %r1, [%r8+-128];
        st.global.b32 [%rd1], %r1;"""
    )
    (result,) = run(text, np.zeros(64, np.uint32), threads=64, shared=SHARED)
    np.testing.assert_array_equal(result, np.r_[np.zeros(32), np.arange(32)])


def test_mbarrier_orders_producer_and_consumer_warps() -> None:
    text = (
        PLACE
        + """setp.eq.u32 %p2, %r61, 0;
        @%p2 mbarrier.init.shared::cta.b64 [%r9+512], 32;
        bar.sync 0;
        setp.ge.u32 %p1, %r61, 32;
        @%p1 bra consumer;
        st.shared.b32 [%r8], %r61;
        ARRIVE
        ret;
        consumer: wait: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r9+512], 0;
        @!%p3 bra wait;
        ld.shared.b32 %r1, [%r8+-128];
        st.global.b32 [%rd1], %r1;"""
    )
    arrive = "mbarrier.arrive.shared::cta.b64 _, [%r9+512];"
    (result,) = run(text.replace("ARRIVE", arrive), np.zeros(64, np.uint32), threads=64, shared=SHARED)
    np.testing.assert_array_equal(result, np.r_[np.zeros(32), np.arange(32)])
    with pytest.raises(DeviceFault, match="deadlock"):
        run(text.replace("ARRIVE", ""), np.zeros(64, np.uint32), threads=64, shared=SHARED)


def test_mbarrier_deadlock_names_wait_and_missing_arrivals() -> None:
    """The message locates the fault at the waiting instruction, even if other threads have continued."""
    text = """mov.b32 %r9, global_smem;
setp.eq.s32 %p1, %r61, 0;
@%p1 mbarrier.init.shared.b64 [%r9], 3;
bar.sync 0;
@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r9], 64;
wait: mbarrier.try_wait.parity.shared.b64 %p2, [%r9], 0;
@!%p2 bra wait;"""
    with pytest.raises(
        DeviceFault, match=r"32 threads of block 0 wait for an mbarrier .* lacks 2 arrivals and 64 bytes"
    ) as caught:
        run(text, WORDS, shared=SHARED)
    assert caught.value.instruction.startswith("mbarrier.try_wait")


def test_instruction_limit_ends_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = "on: add.s32 %r1, %r1, 1;\nbra on;"
    with pytest.raises(DeviceFault, match="did not end within 5,000 instructions") as caught:
        run(endless, WORDS, issues=5000)
    assert caught.value.kind == "time"
    monkeypatch.setenv("MESHGEN_INSTRUCTION_LIMIT", "700")
    with pytest.raises(DeviceFault, match="did not end within 700 instructions"):
        run(endless, WORDS, issues=0)
    monkeypatch.setenv("MESHGEN_INSTRUCTION_LIMIT", "many")
    with pytest.raises(UsageError, match="MG0001: MESHGEN_INSTRUCTION_LIMIT is 'many'"):
        run("", WORDS, issues=0)
