"""Tests of moves, shifts, bit fields, logic, comparisons and selects in PTX."""

from __future__ import annotations

import numpy as np
import pytest

from tests.emulator.snippets import compute, run

RNG = np.random.default_rng(8)
WORDS = RNG.integers(0, 2**32, 64, dtype=np.uint32)


def test_shift_beyond_register_width_gives_zero_or_sign() -> None:
    by = np.array([0, 1, 31, 32, 33, 255, 2**31, 5] * 8, np.uint32)
    left = [int(x) << int(n) & 0xFFFFFFFF if n < 32 else 0 for x, n in zip(WORDS, by, strict=True)]
    right = [int(x) >> int(min(n, 31)) for x, n in zip(WORDS.view(np.int32), by, strict=True)]
    assert compute("shl.b32 %d, %a, %b;", np.uint32, WORDS, by).tolist() == left
    assert compute("shr.s32 %d, %a, %b;", np.int32, WORDS, by).tolist() == right
    assert compute("shr.u32 %d, %a, %b;", np.uint32, WORDS, by).tolist() == [int(x) >> int(n) if n < 32 else 0 for x, n in zip(WORDS, by, strict=True)]  # fmt: skip


@pytest.mark.parametrize("direction", ["l", "r"])
@pytest.mark.parametrize("mode", ["wrap", "clamp"])
def test_funnel_shift_wraps_or_clamps(direction: str, mode: str) -> None:
    low, by = WORDS, np.array([0, 1, 31, 32, 40, 7, 63, 12] * 8, np.uint32)
    high = WORDS[::-1].copy()
    count = by % 32 if mode == "wrap" else np.minimum(by, 32)
    both = [int(h) << 32 | int(lo) for h, lo in zip(high, low, strict=True)]
    if direction == "l":
        expected = [(v << int(n)) >> 32 & 0xFFFFFFFF for v, n in zip(both, count, strict=True)]
    else:
        expected = [v >> int(n) & 0xFFFFFFFF for v, n in zip(both, count, strict=True)]
    assert compute(f"shf.{direction}.{mode}.b32 %d, %a, %b, %c;", np.uint32, low, high, by).tolist() == expected


def field(value: int, position: int, length: int, bits: int, *, signed: bool) -> int:
    """Extract a bit field by the pseudocode of `bfe` in the PTX ISA."""
    top = bits - 1
    sign = value >> min(position + length - 1, top) & 1 if signed and length else 0
    result = 0
    for i in range(bits):
        bit = value >> (position + i) & 1 if i < length and position + i <= top else sign
        result |= bit << i
    return result


@pytest.mark.parametrize("kind", ["u32", "s32"])
def test_bfe_matches_ptx_pseudocode(kind: str) -> None:
    position = np.array([0, 3, 31, 32, 5, 28, 0, 255] * 8, np.uint32)
    length = np.array([0, 1, 4, 8, 27, 8, 32, 255] * 8, np.uint32)
    expected = [
        field(int(v), int(p), int(n), 32, signed=kind == "s32") for v, p, n in zip(WORDS, position, length, strict=True)
    ]
    assert compute(f"bfe.{kind} %d, %a, %b, %c;", np.uint32, WORDS, position, length).tolist() == expected


def test_bfi_inserts_bit_field() -> None:
    base, position, length = WORDS[::-1].copy(), np.array([0, 4, 31, 16] * 16, np.uint32), np.array([8, 0, 3, 32] * 16, np.uint32)  # fmt: skip
    masks = [((1 << int(n)) - 1) << int(p) & 0xFFFFFFFF for p, n in zip(position, length, strict=True)]
    expected = [int(b) & ~m | int(v) << int(p) & m for v, b, p, m in zip(WORDS, base, position, masks, strict=True)]
    assert compute("bfi.b32 %d, %a, %b, %c, %e;", np.uint32, WORDS, base, position, length).tolist() == expected


def test_prmt_permutes_bytes() -> None:
    selector = RNG.integers(0, 2**16, 64, dtype=np.uint32)
    high = WORDS[::-1].copy()
    expected = []
    for low, up, choice in zip(WORDS, high, selector, strict=True):
        octets = int(up) << 32 | int(low)
        permuted = 0
        for n in range(4):
            c = int(choice) >> 4 * n & 15
            byte = octets >> 8 * (c & 7) & 255
            permuted |= (255 * (byte >> 7) if c & 8 else byte) << 8 * n
        expected.append(permuted)
    assert compute("prmt.b32 %d, %a, %b, %c;", np.uint32, WORDS, high, selector).tolist() == expected


@pytest.mark.parametrize("table", [0x80, 0xFE, 0x96, 0xE8, 0x00, 0xFF, 0x1B])
def test_lop3_applies_truth_table(table: int) -> None:
    b, c = WORDS[::-1].copy(), np.roll(WORDS, 5)
    results = compute(f"lop3.b32 %d, %a, %b, %c, {table};", np.uint32, WORDS, b, c)
    for bit in range(32):
        row = (WORDS >> bit & 1) * 4 + (b >> bit & 1) * 2 + (c >> bit & 1)
        np.testing.assert_array_equal(results >> bit & 1, table >> row & 1)


def test_popc_clz_and_brev_match_python() -> None:
    values = np.concatenate([WORDS[:29], np.array([0, 1, 2**31], np.uint32)])
    assert compute("popc.b32 %d, %a;", np.uint32, values).tolist() == [int(v).bit_count() for v in values]
    assert compute("clz.b32 %d, %a;", np.uint32, values).tolist() == [32 - int(v).bit_length() for v in values]
    assert compute("brev.b32 %d, %a;", np.uint32, values).tolist() == [int(f"{int(v):032b}"[::-1], 2) for v in values]
    wide = values.astype(np.uint64) << np.uint64(20)
    assert compute("clz.b64 %d, %a;", np.uint32, wide).tolist() == [64 - int(v).bit_length() for v in wide]


def test_mov_splits_and_joins_registers() -> None:
    text = ".reg .b16 %lo, %hi;\nmov.b32 {%lo, %hi}, %a;\nmov.b32 %d, {%hi, %lo};"
    np.testing.assert_array_equal(compute(text, np.uint32, WORDS), WORDS >> 16 | WORDS << 16)


NAN = float("nan")


@pytest.mark.parametrize(
    ("name", "expected"),
    [("lt", [1, 0, 0, 0, 0]), ("ltu", [1, 0, 0, 1, 1]), ("ne", [1, 0, 1, 0, 0]), ("neu", [1, 0, 1, 1, 1]),
     ("eq", [0, 1, 0, 0, 0]), ("equ", [0, 1, 0, 1, 1]), ("num", [1, 1, 1, 0, 0]), ("nan", [0, 0, 0, 1, 1])],
)  # fmt: skip
def test_setp_handles_nan(name: str, expected: list[int]) -> None:
    a = np.array(([1, 2, 3, NAN, 1] * 7)[:32], np.float32)
    b = np.array(([2, 2, 2, 1, NAN] * 7)[:32], np.float32)
    results = compute(f"setp.{name}.f32 %q, %a, %b;\nselp.b32 %d, 1, 0, %q;", np.uint32, a, b)
    assert results[:5].tolist() == expected


def test_setp_combines_predicates_and_compares_f16x2() -> None:
    a, b = WORDS.view(np.int32), WORDS[::-1].copy().view(np.int32)
    text = """.reg .pred %x, %y;
        setp.lt.s32 %x, %a, 0;
        setp.gt.and.s32 %q|%y, %b, 0, %x;
        selp.b32 %d, 2, 0, %q;
        @%y add.s32 %d, %d, 1;"""
    expected = np.where(a < 0, np.where(b > 0, 2, 1), 0)
    np.testing.assert_array_equal(compute(text, np.int32, a, b), expected)
    packed = """.reg .pred %x, %y;
        setp.gt.f16x2 %x|%y, %a, %b;
        selp.b32 %d, 1, 0, %x;
        @%y add.s32 %d, %d, 2;"""
    low, high = np.float16(2), np.float16(-3)
    pair = np.uint32(int(high.view(np.uint16)) << 16 | int(low.view(np.uint16)))
    assert (compute(packed, np.uint32, np.full(32, pair), np.zeros(32, np.uint32)) == 1).all()


@pytest.mark.parametrize("operation", ["add", "max", "min"])
def test_packed_integer_ops_do_not_carry(operation: str) -> None:
    a, b = WORDS, WORDS[::-1].copy()
    function = {"add": np.add, "max": np.maximum, "min": np.minimum}[operation]
    expected = function(a.view(np.int16), b.view(np.int16)).view(np.uint32)
    np.testing.assert_array_equal(compute(f"{operation}.s16x2 %d, %a, %b;", np.uint32, a, b), expected)


@pytest.mark.parametrize("width", [32, 64])
def test_param_is_loaded_from_selected_address(width: int) -> None:
    """As in newer Triton, threads select one of three pointers: by block, and half of them by thread index."""
    register = "%r" if width == 32 else "%rd"
    body = f"""
	mov.b{width} {register}1, p0;
	mov.b{width} {register}2, p1;
	mov.b{width} {register}3, p2;
	setp.eq.u32 %p1, %r60, 1;
	selp.b{width} {register}4, {register}2, {register}1, %p1;
	setp.gt.u32 %p2, %r61, 15;
	selp.b{width} {register}5, {register}3, {register}4, %p2;
	ld.param.b64 %rd10, [{register}5];
	mul.wide.u32 %rd11, %r61, 4;
	add.s64 %rd12, %rd10, %rd11;
	st.global.b32 [%rd12], %r62;
"""
    results = run(body, *(np.zeros(32, np.int32) for _ in range(3)), blocks=2, races=False)
    threads = np.arange(32)
    assert results[0].tolist() == np.where(threads < 16, threads, 0).tolist()
    assert results[1].tolist() == np.where(threads < 16, threads + 32, 0).tolist()
    assert results[2].tolist() == np.where(threads < 16, 0, threads + 32).tolist()


def test_generic_param_address_is_independent_of_register_width() -> None:
    """Triton 3.9 first puts the addresses of descriptor parameters into 32-bit registers."""
    body = """
	mov.b32 %r1, p0;
	cvt.u64.u32 %rd1, %r1;
	cvta.param.u64 %rd2, %rd1;
	mov.b64 %rd3, p0;
	cvta.param.u64 %rd4, %rd3;
	xor.b64 %rd5, %rd2, %rd4;
	shr.u64 %rd6, %rd5, 32;
	or.b64 %rd7, %rd5, %rd6;
	cvt.u32.u64 %r2, %rd7;
	add.u32 %r3, %r2, %r62;
	ld.param.b64 %rd10, [p0];
	mul.wide.u32 %rd11, %r61, 4;
	add.s64 %rd12, %rd10, %rd11;
	st.global.b32 [%rd12], %r3;
"""
    (result,) = run(body, np.zeros(32, np.int32), races=False)
    assert result.tolist() == list(range(32))
