"""Tests of tosa's integer ops, tables and Fourier transforms, and of linalg's tiled layouts."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text
from tests.mlir.payload import Array, Case, normal, whole


def zero(name: str, number: int) -> str:
    kind = "tensor<1xi8>"
    return f'  %{name} = "tosa.const"() <{{values = dense<{number}> : {kind}}}> : () -> {kind}\n'


def mean(x: Array) -> Array:
    """Return the means of 3 x 2 windows with one row of padding above. Input and output have zero points 2 and 5.

    Reciprocals are rounded up, so the means of ties are rounded away from zero.
    """
    total, count = np.zeros((2, 8, 7, 3)), np.zeros((2, 8, 7, 3))
    for i in range(3):
        for j in range(2):
            first = max(0, 1 - i)
            rows, columns = slice(first, 8), slice(j, j + 7)
            total[:, rows] += x[:, slice(first + i - 1, 8 + i - 1), columns].astype(np.int64) - 2
            count[:, rows] += 1
    return (np.floor(total / count * (1 + 2.0**-30) + 0.5) + 5).clip(-128, 127).astype("i1")


SMALL, WORDS = whole(2, 9, 8, 3, dtype="i1", low=-40, high=40), whole(4, 6, dtype="i2", low=-32768, high=32767)
TABLE, LONG = whole(256, dtype="i1", low=-128, high=127), whole(513, dtype="i2", low=-3000, high=3000)


def looked_up(x: Array, table: Array) -> Array:
    position = x.astype(np.int32) + 32768
    near, far = (table[(position >> 7) + step].astype(np.int32) for step in (0, 1))
    return near * 128 + (far - near) * (position & 127)


X, PLANES = normal(6, 8), normal(3, 4, 6)


def _scaled(x: Array, multiplier: Array, shift: Array, twice: bool) -> Array:
    """Compute tosa.rescale as the specification does, with Python integers. Results beyond i32 wrap around."""
    results = []
    for value, factor, bits in np.nditer(list(np.broadcast_arrays(x, multiplier, shift))):
        half = 1 << (int(bits) - 1)
        half += (1 << 30 if value >= 0 else -(1 << 30)) if twice and bits > 31 else 0
        results.append(((int(value) * int(factor) + half) >> int(bits)) % 2**32)
    return np.array(results, "u8").astype("u4").view("i4").reshape(x.shape)


CASES: dict[str, Case] = {
    "mean of whole numbers": Case(
        {"x": SMALL},
        zero("a", 2) + zero("b", 5) + "  %r = tosa.avg_pool2d %x, %a, %b {acc_type = i32, kernel = array<i64: 3, 2>, "
        "pad = array<i64: 1, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<2x9x8x3xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x8x7x3xi8>",
        mean,
    ),
    "negative of whole numbers": Case(
        {"x": SMALL},
        zero("a", 3) + zero("b", -100) + "  %r = tosa.negate %x, %a, %b : (tensor<2x9x8x3xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x9x8x3xi8>",
        lambda x: np.clip(3 - 100 - x.astype(np.int64), -128, 127).astype("i1"),
    ),
    "table": Case(
        {"x": whole(4, 6, dtype="i1", low=-128, high=127), "t": TABLE},
        "%r = tosa.table %x, %t : (tensor<4x6xi8>, tensor<256xi8>) -> tensor<4x6xi8>",
        lambda x, t: t[x.astype(np.int32) + 128],
    ),
    "table of longer words": Case(
        {"x": WORDS, "t": LONG},
        "%r = tosa.table %x, %t : (tensor<4x6xi16>, tensor<513xi16>) -> tensor<4x6xi32>",
        looked_up,
    ),
    "apply_scale, once": Case(
        {"x": whole(3, 4, low=-2**31, high=2**31 - 1), "m": whole(3, 4, low=0, high=2**31 - 1, seed=1), "s": whole(3, 4, dtype="i1", low=33, high=63)},
        "%r = tosa.apply_scale %x, %m, %s {rounding_mode = SINGLE_ROUND} : (tensor<3x4xi32>, tensor<3x4xi32>, tensor<3x4xi8>) -> tensor<3x4xi32>",
        lambda x, m, s: _scaled(x, m, s, False),
    ),
    "apply_scale, twice, in the words of before, with a stretched shift": Case(
        {"x": whole(3, 4, low=-2**31, high=2**31 - 1), "m": whole(1, 4, low=2**20, high=2**31 - 1, seed=1), "s": whole(3, 1, dtype="i1", low=20, high=45)},
        "%r = tosa.apply_scale %x, %m, %s {double_round = true} : (tensor<3x4xi32>, tensor<1x4xi32>, tensor<3x1xi8>) -> tensor<3x4xi32>",
        lambda x, m, s: _scaled(x, m, s, True),
    ),
    "apply_scale of scalars": Case(
        {"x": whole(3, 4, low=-1000, high=1000)},
        "%m = arith.constant 1518500250 : i32\n%s = arith.constant 35 : i8\n%e = tensor.empty() : tensor<3x4xi32>\n"
        "%r = linalg.map ins(%x : tensor<3x4xi32>) outs(%e : tensor<3x4xi32>) (%a: i32, %o: i32) {\n"
        "  %y = tosa.apply_scale %a, %m, %s {rounding_mode = DOUBLE_ROUND} : (i32, i32, i8) -> i32\n  linalg.yield %y : i32\n}",
        lambda x: _scaled(x, np.full_like(x, 1518500250), np.full_like(x, 35), True),
    ),
    "a variable that is only read": Case(
        {"x": normal(2, 2)},
        "%v = tosa.variable_read @v : tensor<2x2xf32>\n%r = tosa.add %x, %v : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>",
        lambda x: x + np.array([[1, 2], [3, 4]], "f4"),
        "tosa.variable @v = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>",
    ),
    "a variable of the function": Case(
        {"x": normal(2, 2)},
        "tosa.variable @v = dense<3.0> : tensor<2x2xf32>\n%v = tosa.variable.read @v : tensor<2x2xf32>\n"
        "%r = tosa.add %x, %v : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>",
        lambda x: x + np.float32(3),
    ),
    "rfft2d": Case(
        {"x": PLANES},
        "%r0, %r1 = tosa.rfft2d %x : (tensor<3x4x6xf32>) -> (tensor<3x4x4xf32>, tensor<3x4x4xf32>)",
        lambda x: (np.fft.rfft2(x).real, np.fft.rfft2(x).imag),
    ),
    "fft2d, inverse": Case(
        {"x": PLANES, "y": normal(3, 4, 6, seed=1)},
        "%r0, %r1 = tosa.fft2d %x, %y {inverse = true} : (tensor<3x4x6xf32>, tensor<3x4x6xf32>) -> (tensor<3x4x6xf32>, tensor<3x4x6xf32>)",
        lambda x, y: ((z := np.fft.ifft2(x + 1j * y) * 24).real, z.imag),
    ),
    "pack": Case(
        {"x": X},
        "%p = arith.constant 7.0 : f32\n%d = tensor.empty() : tensor<3x3x3x2xf32>\n"
        "%r = linalg.pack %x padding_value(%p : f32) outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [3, 2] "
        "into %d : tensor<6x8xf32> -> tensor<3x3x3x2xf32>",
        lambda x: np.pad(x, ((0, 0), (0, 1)), constant_values=7).reshape(3, 2, 3, 3).transpose(2, 0, 3, 1),
    ),
    "unpack": Case(
        {"x": normal(3, 4, 3, 2)},
        "%d = tensor.empty() : tensor<7x8xf32>\n"
        "%r = linalg.unpack %x outer_dims_perm = [1, 0] inner_dims_pos = [1, 0] inner_tiles = [3, 2] "
        "into %d : tensor<3x4x3x2xf32> -> tensor<7x8xf32>",
        lambda x: x.transpose(1, 3, 0, 2).reshape(8, 9)[:7, :8],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_tosa_integer_op_matches_reference(name: str) -> None:
    case = CASES[name]
    case.matches()
    for number, argument in enumerate(case.arguments):
        rank = case.arguments[argument].ndim
        case.moved("4", {argument: str([[0] if d == (number or rank - 1) % rank else [] for d in range(rank)])})


A = "tensor<6x8xf32>"
REFUSED = [
    (f"%v = tosa.variable_read @v : {A}\n%r = tosa.add %x, %v : ({A}, {A}) -> {A}", "@v is not declared"),
    (f"tosa.variable @v : {A}\n%v = tosa.variable_read @v : {A}\n%r = tosa.add %x, %v : ({A}, {A}) -> {A}", "@v has no initial value"),
    (f"%d = tensor.empty() : {A}\n%r = linalg.pack %x inner_dims_pos = [0] inner_tiles = [4] into %d : {A} -> {A}", "with tiles .4. of dims .0. is not"),
    (f"%d = tensor.empty() : {A}\n%r = linalg.unpack %x inner_dims_pos = [0, 0] inner_tiles = [2, 3] into %d : {A} -> {A}", "is not"),
    (f"%r = tosa.table %x, %x : ({A}, {A}) -> {A}", "is not a table for"),
    (f"%r, %s = tosa.rfft2d %x : ({A}) -> ({A}, {A})", "expected batches of f32 planes"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_malformed_tosa_or_pack_op_is_refused(body: str, message: str) -> None:
    with pytest.raises(ProgramError, match=message) as caught:
        parse_text(f"func.func @main(%x: {A}) -> {A} {{\n{body}\nreturn %r : {A}\n}}")
    assert caught.value.diagnostics[0].code == "MG0104" and caught.value.diagnostics[0].loc is not None


def test_write_to_tosa_variable_is_refused_at_its_location() -> None:
    with pytest.raises(ProgramError, match="has no state between runs") as caught:
        parse_text(
            f"tosa.variable @v = dense<1.0> : {A}\nfunc.func @main(%x: {A}) -> {A} {{\n  %v = tosa.variable_read @v : {A}\n"
            f"  tosa.variable_write @v, %x : {A}\n  return %v : {A}\n}}"
        )
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0103" and fault.loc is not None and fault.loc.line == 4
