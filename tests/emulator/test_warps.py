"""Tests of shuffles, votes, atomic operations, divergence and local memory."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.snippets import run

PLACE = (
    "mul.wide.u32 %rd1, %r62, 4;\nadd.s64 %rd2, %rd1, %rd50;\nld.global.b32 %r1, [%rd2];\nadd.s64 %rd3, %rd1, %rd51;\n"
)
STORE = "\nst.global.b32 [%rd3], %r2;"
WORDS = np.random.default_rng(3).integers(0, 2**32, 128, dtype=np.uint32)
EMPTY = np.zeros(128, np.uint32)


def each_warp(text: str) -> np.ndarray:
    """Run instructions that compute %r2 from %r1 in two blocks of two warps, and return %r2 as [4 warps, 32 threads]."""
    return run(PLACE + text + STORE, WORDS, EMPTY, threads=64, blocks=2)[1].reshape(4, 32)


def shuffled(mode: str, by: int, limits: int) -> np.ndarray:
    """Return the result of `shfl.sync` as computed by the pseudocode in the PTX ISA."""
    segment, clamp = limits >> 8 & 31, limits & 31
    source = []
    for lane in range(32):
        highest, lowest = (lane & segment) | (clamp & ~segment & 31), lane & segment
        other = {"up": lane - by, "down": lane + by, "bfly": lane ^ by, "idx": lowest | (by & ~segment & 31)}[mode]
        valid = other >= highest if mode == "up" else other <= highest
        source.append(other if valid else lane)
    return WORDS.reshape(4, 32)[:, source]


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize(
    ("by", "limits"), [(1, 0x1F), (16, 0x1F), (3, 0x1F), (1, 0x1C1F), (2, 0x181F), (0, 0), (5, 0x0)]
)
def test_shfl_matches_ptx_pseudocode(mode: str, by: int, limits: int) -> None:
    results = each_warp(f"shfl.sync.{mode}.b32 %r2, %r1, {by}, {limits}, -1;")
    np.testing.assert_array_equal(results, shuffled(mode, by, limits))


def test_vote_combines_predicates_of_warp() -> None:
    odd = "and.b32 %r3, %r1, 1;\nsetp.eq.u32 %p1, %r3, 1;\n"
    bits = (WORDS.reshape(4, 32) & 1).astype(np.uint64)
    ballots = (bits << np.arange(32, dtype=np.uint64)).sum(1)
    np.testing.assert_array_equal(
        each_warp(odd + "vote.sync.ballot.b32 %r2, %p1, -1;"), np.repeat(ballots, 32).reshape(4, 32)
    )
    chosen = "\nselp.b32 %r2, 1, 0, %p2;"
    assert each_warp(odd + "vote.sync.any.pred %p2, %p1, -1;" + chosen).all()
    assert not each_warp(odd + "vote.sync.all.pred %p2, %p1, -1;" + chosen).any()
    assert each_warp("setp.lt.u32 %p1, %r61, 64;\nvote.sync.all.pred %p2, %p1, -1;" + chosen).all()


def test_redux_combines_integers_of_warp() -> None:
    rows = WORDS.reshape(4, 32)
    for operation, expected in (("add.u32", rows.sum(1, dtype=np.uint32)), ("max.u32", rows.max(1)), ("xor.b32", np.bitwise_xor.reduce(rows, 1)), ("min.s32", rows.view(np.int32).min(1).view(np.uint32))):  # fmt: skip
        results = each_warp(f"redux.sync.{operation} %r2, %r1, -1;")
        np.testing.assert_array_equal(results, np.repeat(expected, 32).reshape(4, 32))


@pytest.mark.parametrize("special_bits", [[], [0x80000000], [0x7FC00000, 0xFF800000], [0x7FC00000] * 32])
@pytest.mark.parametrize("flags", ["", ".abs", ".NaN", ".abs.NaN"])
@pytest.mark.parametrize("operation", ["min", "max"])
def test_redux_of_floats_handles_nan_and_signed_zero(operation: str, flags: str, special_bits: list[int]) -> None:
    """-0 is less than 0. NaN is the result only with `.NaN`, or if all values are NaN."""
    floats = np.where(
        np.arange(32) < len(special_bits), np.resize([*special_bits, 0], 32), np.arange(32) << 25 & 0x7F000000
    )
    numbers = floats.astype(np.uint32).view(np.float32)
    numbers = np.abs(numbers) if "abs" in flags else numbers
    not_nan = numbers[~np.isnan(numbers)]
    signed = sorted(not_nan, key=lambda x: (x, not np.signbit(x)))
    expected = np.uint32(0x7FFFFFFF)
    if signed and not ("NaN" in flags and np.isnan(numbers).any()):
        expected = np.float32(signed[0 if operation == "min" else -1]).view(np.uint32)
    lanes = "".join(
        f"setp.eq.u32 %p1, %r3, {lane};\nselp.b32 %r4, {bits}, %r4, %p1;\n" for lane, bits in enumerate(floats.tolist())
    )
    results = each_warp(
        f"and.b32 %r3, %r61, 31;\nmov.b32 %r4, 0;\n{lanes}redux.sync.{operation}{flags}.f32 %r2, %r4, -1;"
    )
    assert (results == expected).all()


def test_elect_chooses_one_thread() -> None:
    results = each_warp("elect.sync %r4|%p1, -1;\nselp.b32 %r2, 1, 0, %p1;")
    assert results[:, 0].all() and not results[:, 1:].any()


def test_divergent_threads_reconverge() -> None:
    """A thread runs a loop with a branch for as many iterations as its index modulo 8."""
    text = """mov.b32 %r2, 0;
        and.b32 %r3, %r61, 7;
        again: setp.eq.u32 %p1, %r3, 0;
        @%p1 bra done;
        and.b32 %r5, %r3, 1;
        setp.eq.u32 %p2, %r5, 1;
        @%p2 bra odd;
        add.s32 %r2, %r2, 100;
        bra.uni next;
        odd: add.s32 %r2, %r2, 1;
        next: sub.s32 %r3, %r3, 1;
        bra again;
        done: shfl.sync.idx.b32 %r2, %r2, 7, 31, -1;"""
    assert (each_warp(text) == 4 + 300).all()


def test_exited_threads_stay_inactive() -> None:
    results = each_warp(
        "mov.b32 %r2, 5;\nand.b32 %r3, %r61, 1;\nsetp.eq.u32 %p1, %r3, 1;\n@%p1 ret;\nadd.s32 %r2, %r2, 1;"
    )
    np.testing.assert_array_equal(results, np.tile([6, 0], (4, 16)))


@pytest.mark.parametrize(("operation", "expected"), [("add.u32", WORDS.sum(dtype=np.uint32)), ("max.u32", WORDS.max()), ("xor.b32", np.bitwise_xor.reduce(WORDS)), ("min.s32", WORDS.view(np.int32).min().view(np.uint32))])  # fmt: skip
def test_atomic_operations_on_one_word_are_sequential(operation: str, expected: np.uint32) -> None:
    start = np.array([2**31 - 1 if operation.startswith("min") else 0], np.uint32)
    text = PLACE + f"atom.global.gpu.acq_rel.{operation} %r2, [%rd52], %r1;" + STORE
    _, old, results = run(text, WORDS, EMPTY, start, threads=64, blocks=2)
    assert results[0] == expected and old[0] == start[0] and len(np.unique(old)) > 1


def test_atomic_float_add_and_compare_and_swap() -> None:
    ones = np.ones(128, np.float32)
    text = PLACE + "red.global.add.f32 [%rd52], %r1;"
    assert run(text, ones, EMPTY, np.zeros(1, np.float32), threads=64, blocks=2)[2][0] == 128
    swap = PLACE + "atom.global.cas.b32 %r2, [%rd52], 0, %r1;" + STORE
    _, old, results = run(swap, WORDS, EMPTY, np.zeros(1, np.uint32), threads=64, blocks=2)
    assert results[0] == WORDS[0] and old[0] == 0 and (old[1:] == WORDS[0]).all()


def test_each_thread_has_its_own_local_memory() -> None:
    text = """.local .align 8 .b8 depot[16];
        mov.b64 %rd10, depot;
        cvta.local.u64 %rd11, %rd10;
        st.local.b32 [%rd10+8], %r1;
        ld.b32 %r2, [%rd11+8];"""
    np.testing.assert_array_equal(each_warp(text), WORDS.reshape(4, 32))


def test_guard_selects_active_threads() -> None:
    results = each_warp("and.b32 %r3, %r61, 1;\nsetp.eq.u32 %p1, %r3, 1;\nmov.b32 %r2, 7;\n@%p1 mov.b32 %r2, 8;\n@!%p1 add.s32 %r2, %r2, 2;")  # fmt: skip
    np.testing.assert_array_equal(results, np.tile([9, 8], (4, 16)))
