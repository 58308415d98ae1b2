"""Tests of the tosa importer against NumPy, sharded or not."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.mlir.text import parse_text
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.sizes.program import with_shapes
from tests.mlir.payload import Array, Case, convolve, normal, tensor, whole, windows_of

IMAGE, KERNEL, BIAS = normal(2, 9, 8, 3), normal(4, 3, 2, 3, seed=1), normal(4, seed=2)
ZERO = '%z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>'


def shape(name: str, numbers: list[int]) -> str:
    """Return the line that defines a constant shape `name` with the sizes `numbers`."""
    return f"  %{name} = tosa.const_shape {{values = dense<{numbers}> : tensor<{len(numbers)}xindex>}} : () -> !tosa.shape<{len(numbers)}>\n"


def call(op: str, operands: str, types: str, result: str, before: str = "", name: str = "r") -> str:
    return f"{before}  %{name} = tosa.{op} {operands} : ({types}) -> {result}"


def case(op: str, arguments: dict[str, Array], expected: Callable[..., Any], attributes: str = "", more: str = "", more_types: str = "", before: str = "") -> Case:  # fmt: skip
    """Return a case of one op applied to all `arguments`. The result type is that of the array that `expected` returns."""
    built_case = Case(arguments, "", expected)
    operands = ", ".join(f"%{name}" for name in arguments) + more
    types = ", ".join(tensor(array) for array in arguments.values()) + more_types
    built_case.body = call(op, f"{operands} {attributes}".strip(), types, tensor(built_case.expected_arrays[0]), before)
    return built_case


def conv(x: Array, w: Array, b: Array, pad: tuple[int, ...] = (0, 0, 0, 0), stride: tuple[int, int] = (1, 1), dilation: tuple[int, int] = (1, 1)) -> Array:  # fmt: skip
    padded = np.pad(x, ((0, 0), pad[:2], pad[2:], (0, 0)))
    return convolve(padded, w, "nhwc,fhwc->nhwf", stride, dilation) + b


def transposed(x: Array, w: Array, b: Array, stride: tuple[int, int], pad: tuple[int, int, int, int]) -> Array:
    height = (x.shape[1] - 1) * stride[0] + w.shape[1]
    width = (x.shape[2] - 1) * stride[1] + w.shape[2]
    result = np.zeros(
        (x.shape[0], height + max(pad[0], 0) + max(pad[1], 0), width + max(pad[2], 0) + max(pad[3], 0), w.shape[0])
    )
    for y in range(x.shape[1]):
        for z in range(x.shape[2]):
            rows = slice(y * stride[0] + pad[0], y * stride[0] + pad[0] + w.shape[1])
            columns = slice(z * stride[1] + pad[2], z * stride[1] + pad[2] + w.shape[2])
            result[:, rows, columns] += np.einsum("nc,fhwc->nhwf", x[:, y, z], w)
    return result + b


def pooled(x: Array, kernel: tuple[int, int], stride: tuple[int, int], pad: tuple[int, ...], is_mean: bool) -> Array:
    widths = ((0, 0), pad[:2], pad[2:], (0, 0))
    view = windows_of(np.pad(x, widths, constant_values=np.nan), "nhwc,hw->", kernel, stride, (1, 1))
    return (np.nanmean if is_mean else np.nanmax)(view, axis=(-1, -2))


def rescaled(x: Array, multiplier: Array, shift: Array, low: int, high: int) -> Array:
    value = (x.astype("i8") - low) * multiplier.astype("i8") + (1 << (shift.astype("i8") - 1))
    return np.clip((value >> shift) + high, -128, 127).astype("i1")


def _put(x: Array, indices: Array, rows: Array) -> Array:
    result = x.copy()
    np.put_along_axis(result, np.broadcast_to(indices[..., None], rows.shape), rows, 1)
    return result


def _bilinear(x: Array) -> Array:
    """Double the resolution so that corners stay in place: every other row and column is the mean of its neighbors."""
    for axis in (1, 2):
        ends = [np.take(x, range(start, x.shape[axis] - 1 + start), axis) for start in (0, 1)]
        mean, last = (ends[0] + ends[1]) / 2, np.take(x, [-1], axis)
        pairs = np.stack([ends[0], mean], axis + 1)
        merged = pairs.reshape(*x.shape[:axis], -1, *x.shape[axis + 1 :])
        x = np.concatenate([merged, last], axis)
    return x


X, Y, N = normal(3, 5), normal(3, 1, seed=1), whole(3, 5)
HOLES, OTHERS = (np.where(x > 0.5, np.nan, x).astype("f4") for x in (normal(3, 5, seed=6), normal(3, 5, seed=7)))
HOLES[1] = np.nan
LAKES = np.where(IMAGE > 0, np.nan, IMAGE).astype("f4")
ROWS = normal(2, 6, 4)
PLACES = np.array([[5, 0, 3], [1, 1, 4]], "i4")
CONST = '  %{name} = "tosa.const"() <{{values = dense<{data}> : {type}}}> : () -> {type}\n'
CASES: dict[str, Case] = {
    "conv2d": case("conv2d", {"x": IMAGE, "w": KERNEL, "b": BIAS}, conv, "{acc_type = f32, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>}", ", %z, %z", ", tensor<1xf32>, tensor<1xf32>", ZERO + "\n"),
    "conv2d_steps": case("conv2d", {"x": IMAGE, "w": KERNEL, "b": BIAS}, lambda x, w, b: conv(x, w, b, (1, 2, 0, 1), (2, 1), (1, 2)), "{dilation = array<i64: 1, 2>, pad = array<i64: 1, 2, 0, 1>, stride = array<i64: 2, 1>}"),
    "conv2d_one_bias": case("conv2d", {"x": IMAGE, "w": KERNEL, "b": normal(1)}, conv, "{acc_type = f32, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>}"),
    "conv3d": case("conv3d", {"x": normal(1, 5, 6, 7, 2), "w": normal(3, 2, 3, 2, 2), "b": normal(3)}, lambda x, w, b: convolve(x, w, "ndhwc,fdhwc->ndhwf", (1, 2, 1), (1, 1, 1)) + b, "{dilation = array<i64: 1, 1, 1>, pad = array<i64: 0, 0, 0, 0, 0, 0>, stride = array<i64: 1, 2, 1>}"),
    "depthwise_conv2d": case("depthwise_conv2d", {"x": IMAGE, "w": normal(3, 2, 3, 2), "b": normal(6)}, lambda x, w, b: convolve(x, w, "nhwc,hwcm->nhwcm", (1, 1), (1, 1)).reshape(2, 7, 7, 6) + b, "{dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>}"),
    "transpose_conv2d": case("transpose_conv2d", {"x": IMAGE, "w": KERNEL, "b": BIAS}, lambda x, w, b: transposed(x, w, b, (2, 3), (1, 0, 0, 2)), "{out_pad = array<i64: 1, 0, 0, 2>, stride = array<i64: 2, 3>}"),
    "conv2d_of_bytes": case("conv2d", {"x": whole(1, 5, 5, 2, dtype="i1"), "w": whole(3, 2, 2, 2, dtype="i1", seed=1), "b": whole(3)}, lambda x, w, b: conv(x.astype("i4") - 3, w.astype("i4"), b, (1, 1, 1, 1)).astype("i4"), "{acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>}", ", %p, %q", ", tensor<1xi8>, tensor<1xi8>", CONST.format(name="p", data=3, type="tensor<1xi8>") + CONST.format(name="q", data=0, type="tensor<1xi8>")),
    "max_pool2d": case("max_pool2d", {"x": IMAGE}, lambda x: pooled(x, (3, 2), (2, 2), (1, 1, 0, 0), False), "{kernel = array<i64: 3, 2>, pad = array<i64: 1, 1, 0, 0>, stride = array<i64: 2, 2>}"),
    "avg_pool2d": case("avg_pool2d", {"x": IMAGE}, lambda x: pooled(x, (3, 2), (2, 2), (1, 1, 0, 0), True), "{acc_type = f32, kernel = array<i64: 3, 2>, pad = array<i64: 1, 1, 0, 0>, stride = array<i64: 2, 2>}", ", %z, %z", ", tensor<1xf32>, tensor<1xf32>", ZERO + "\n"),
    "fully_connected": case("fully_connected", {"x": X, "w": normal(4, 5), "b": BIAS}, lambda x, w, b: x @ w.T + b),
    "matmul_zero_points": case("matmul", {"x": whole(2, 3, 5, dtype="i1"), "w": whole(2, 5, 4, dtype="i1", seed=1)}, lambda x, w: (x.astype("i4") - 2) @ (w.astype("i4") + 1), "", ", %p, %q", ", tensor<1xi8>, tensor<1xi8>", CONST.format(name="p", data=2, type="tensor<1xi8>") + CONST.format(name="q", data=-1, type="tensor<1xi8>")),
    "argmax": case("argmax", {"x": X}, lambda x: x.argmax(1).astype("i4"), "{axis = 1 : i32}"),
    "argmax_of_ties": case("argmax", {"x": whole(4, 9, low=0, high=3)}, lambda x: x.argmax(0).astype("i4"), "{axis = 0 : i32, nan_mode = PROPAGATE}"),
    "argmax_ignores_nan": case("argmax", {"x": np.where(X > 0, np.nan, X).astype("f4")}, lambda x: np.nanargmax(x, 1).astype("i4"), "{axis = 1 : i32, nan_mode = IGNORE}"),
    "maximum_ignores_nan": case("maximum", {"x": HOLES, "y": OTHERS}, np.fmax, "{nan_mode = IGNORE}"),
    "minimum_ignores_nan": case("minimum", {"x": HOLES, "y": OTHERS}, np.fmin, "{nan_mode = IGNORE}"),
    "maximum_propagates_nan": case("maximum", {"x": HOLES, "y": OTHERS}, np.maximum, "{nan_mode = PROPAGATE}"),
    "clamp_ignores_nan": case("clamp", {"x": HOLES}, lambda x: np.where(np.isnan(x), np.float32(-0.5), x.clip(-0.5, 0.25)), "{min_val = -0.5 : f32, max_val = 0.25 : f32, nan_mode = IGNORE}"),
    "reduce_max_ignores_nan": case("reduce_max", {"x": HOLES}, lambda x: np.fmax.reduce(x, 1, keepdims=True), "{axis = 1 : i32, nan_mode = IGNORE}"),
    "reduce_min_ignores_nan": case("reduce_min", {"x": HOLES}, lambda x: np.fmin.reduce(x, 0, keepdims=True), "{axis = 0 : i32, nan_mode = IGNORE}"),
    "max_pool2d_ignores_nan": case("max_pool2d", {"x": LAKES}, lambda x: np.fmax.reduce(windows_of(x, "nhwc,hw->", (3, 4), (1, 1), (1, 1)), (-1, -2)), "{kernel = array<i64: 3, 4>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, nan_mode = IGNORE}"),
    "max_pool2d_lists": case("max_pool2d", {"x": IMAGE}, lambda x: pooled(x, (3, 2), (2, 2), (1, 1, 0, 0), False), "{kernel = [3, 2], pad = [1, 1, 0, 0], stride = [2, 2]}"),
    "negate_bytes": case("negate", {"x": np.array([-128, 127, 3], "i1")}, lambda x: np.array([127, -127, -3], "i1")),
    "gather": case("gather", {"x": ROWS, "i": PLACES}, lambda x, i: np.take_along_axis(x, i[..., None], 1)),
    "scatter": case("scatter", {"x": ROWS, "i": np.array([[5, 0], [1, 4]], "i4"), "y": normal(2, 2, 4, seed=5)}, lambda x, i, y: _put(x, i, y)),
    "tile": case("tile", {"x": X}, lambda x: np.tile(x, (2, 3)), "", ", %s", ", !tosa.shape<2>", shape("s", [2, 3])),
    "tile_once": case("tile", {"x": X}, lambda x: np.tile(x, (1, 3)), "", ", %s", ", !tosa.shape<2>", shape("s", [1, 3])),
    "pad": case("pad", {"x": X}, lambda x: np.pad(x, ((1, 0), (0, 2)), constant_values=0), "", ", %s, %z", ", !tosa.shape<4>, tensor<1xf32>", shape("s", [1, 0, 0, 2]) + "  " + ZERO + "\n"),
    "reverse": case("reverse", {"x": X}, lambda x: x[:, ::-1], "{axis = 1 : i32}"),
    "reduce_product": case("reduce_product", {"x": X}, lambda x: x.prod(0, keepdims=True), "{axis = 0 : i32}"),
    "reduce_any": case("reduce_any", {"x": N > 7}, lambda x: x.any(1, keepdims=True), "{axis = 1 : i32}"),
    "reduce_min": case("reduce_min", {"x": X}, lambda x: x.min(1, keepdims=True), "{axis = 1 : i32, nan_mode = PROPAGATE}"),
    "select_stretches": case("select", {"p": whole(3, 1, low=0, high=2) > 0, "x": X, "y": Y}, lambda p, x, y: np.where(p, x, y)),
    "sub_stretches": case("sub", {"y": Y, "x": X}, lambda y, x: y - x),
    "pow": case("pow", {"x": np.abs(X), "y": Y}, lambda x, y: x**y),
    "intdiv": case("intdiv", {"x": N, "y": whole(3, 5, low=1, seed=3)}, lambda x, y: np.trunc(x / y).astype("i4")),
    "shift_rounds": case("arithmetic_right_shift", {"x": N, "y": np.full((3, 5), 1, "i4")}, lambda x, y: (x + 1) >> 1, "{round = true}"),
    "mul_shifts": case("mul", {"x": N * 1000, "y": N}, lambda x, y: ((x.astype("i8") * y + 8) >> 4).astype("i4"), "", ", %k", ", tensor<1xi8>", CONST.format(name="k", data=4, type="tensor<1xi8>")),
    "clz": case("clz", {"x": np.abs(N)}, lambda x: np.array([32 - int(v).bit_length() for v in x.flat], "i4").reshape(x.shape)),
    "erf": case("erf", {"x": X}, lambda x: np.vectorize(math.erf)(x)),
    "rsqrt": case("rsqrt", {"x": np.abs(X)}, lambda x: 1 / np.sqrt(x)),
    "cast": case("cast", {"x": X * 9}, lambda x: np.rint(x).astype("i1")),
    "clamp": case("clamp", {"x": N}, lambda x: x.clip(-2, 3), "{min_val = -2 : i32, max_val = 3 : i32}"),
    "identity": case("identity", {"x": X}, lambda x: x),
    "rescale_unsigned": case("rescale", {"x": whole(2, 7, dtype="i1", low=-128, high=128)}, lambda x: ((((x.view("u1").astype("i8") - 3) * 2**30 + 2**30) >> 31) + 200).clip(0, 255).astype("u1").view("i1"), "{scale32 = true, rounding_mode = SINGLE_ROUND, per_channel = false, input_unsigned = true, output_unsigned = true}", ", %m, %s, %p, %q", ", tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>", "".join(CONST.format(name=n, data=d, type=t) for n, d, t in (("m", 1073741824, "tensor<1xi32>"), ("s", 31, "tensor<1xi8>"), ("p", 3, "tensor<1xi8>"), ("q", -56, "tensor<1xi8>")))),
    "rescale": case("rescale", {"x": whole(2, 7, low=-9000, high=9000)}, lambda x: rescaled(x, np.array([1073741824]), np.array([38]), 0, -4), "{scale32 = true, rounding_mode = SINGLE_ROUND, per_channel = false, input_unsigned = false, output_unsigned = false}", ", %m, %s, %p, %q", ", tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>", "".join(CONST.format(name=n, data=d, type=t) for n, d, t in (("m", 1073741824, "tensor<1xi32>"), ("s", 38, "tensor<1xi8>"), ("p", 0, "tensor<1xi32>"), ("q", -4, "tensor<1xi8>")))),
    "resize_nearest": case("resize", {"x": normal(1, 3, 4, 2)}, lambda x: x.repeat(2, 1).repeat(2, 2), "{mode = NEAREST_NEIGHBOR}", ", %a, %o, %b", ", !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>", shape("a", [4, 2, 4, 2]) + shape("o", [-1, -1]) + shape("b", [1, 1])),
    "resize_bilinear": case("resize", {"x": normal(1, 3, 4, 2)}, lambda x: _bilinear(x), "{mode = BILINEAR}", ", %a, %o, %b", ", !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>", shape("a", [4, 2, 4, 2]) + shape("o", [0, 0]) + shape("b", [0, 0])),
    "cond_if": Case({"p": np.array(True), "x": X}, "  %r = tosa.cond_if %p (%a = %x) : tensor<i1> (tensor<3x5xf32>) -> tensor<3x5xf32> {\n  ^bb0(%a: tensor<3x5xf32>):\n    %n = tosa.negate %x : (tensor<3x5xf32>) -> tensor<3x5xf32>\n    tosa.yield %n : tensor<3x5xf32>\n  } else {\n  ^bb0(%a: tensor<3x5xf32>):\n    tosa.yield %a : tensor<3x5xf32>\n  }", lambda p, x: -x),
    "cond_if_captures": Case({"p": np.array(False), "x": X}, "  %r = tosa.cond_if %p -> (tensor<3x5xf32>) {\n    tosa.yield %x : tensor<3x5xf32>\n  } else {\n    %n = tosa.abs %x : (tensor<3x5xf32>) -> tensor<3x5xf32>\n    tosa.yield %n : tensor<3x5xf32>\n  }", lambda p, x: np.abs(x)),
    "while_loop": Case({"n": np.array(4, "i4"), "x": X}, '  %c = "tosa.const"() <{values = dense<0> : tensor<i32>}> : () -> tensor<i32>\n  %u = "tosa.const"() <{values = dense<1> : tensor<i32>}> : () -> tensor<i32>\n  %q:2 = tosa.while_loop (%i = %c, %t = %x) : (tensor<i32>, tensor<3x5xf32>) -> (tensor<i32>, tensor<3x5xf32>) {\n    %g = tosa.greater %n, %i : (tensor<i32>, tensor<i32>) -> tensor<i1>\n    tosa.yield %g : tensor<i1>\n  } do {\n  ^bb0(%i: tensor<i32>, %t: tensor<3x5xf32>):\n    %a = tosa.add %t, %x : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>\n    %k = tosa.add %i, %u : (tensor<i32>, tensor<i32>) -> tensor<i32>\n    tosa.yield %k, %a : tensor<i32>, tensor<3x5xf32>\n  }\n  %r = tosa.identity %q#1 : (tensor<3x5xf32>) -> tensor<3x5xf32>', lambda n, x: 5 * x),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_tosa_op_matches_numpy(name: str) -> None:
    CASES[name].matches()


# Sharding batch or output channels moves nothing; sharding rows moves edge rows; sharding a table moves all of it.
MOVED = [
    ("conv2d", "2x3", {"x": "[[0]]", "r": "[[0], [], [], [1]]"}, {}),
    ("conv2d_steps", "3", {"x": "[[], [0]]", "r": "[[], [0]]"}, {"fetch_rows": 1}),
    ("depthwise_conv2d", "3", {"x": "[[], [], [], [0]]"}, {}),
    ("max_pool2d", "3", {"x": "[[], [0]]", "r": "[[], [0]]"}, {"fetch_rows": 1}),
    ("avg_pool2d", "2", {"x": "[[0]]", "r": "[[0]]"}, {}),
    ("fully_connected", "2x2", {"x": "[[0]]", "w": "[[1]]", "r": "[[0], [1]]"}, {}),
    ("gather", "2x2", {"x": "[[0], [], [1]]", "r": "[[0], [], [1]]"}, {}),
    ("scatter", "2x2", {"x": "[[0], [], [1]]", "r": "[[0], [], [1]]"}, {}),
    ("select_stretches", "2x2", {"x": "[[0], [1]]", "r": "[[0], [1]]"}, {}),
    ("argmax", "3", {"x": "[[0]]", "r": "[[0]]"}, {}),
    ("tile_once", "3", {"x": "[[0]]", "r": "[[0]]"}, {}),
    ("while_loop", "4", {"x": "[[], [0]]", "r": "[[], [0]]"}, {}),
    ("cond_if", "2", {"x": "[[0]]", "r": "[[0]]"}, {}),
]  # fmt: skip


@pytest.mark.parametrize("name, grid, splits, moved", MOVED, ids=[f"{n}-{g}" for n, g, *_ in MOVED])
def test_sharded_tosa_op_moves_as_expected(name: str, grid: str, splits: dict[str, str], moved: dict[str, int]) -> None:
    assert CASES[name].moved(grid, splits) == moved


def test_tosa_broadcast_supports_unknown_sizes() -> None:
    text = """func.func @main(%x: tensor<?x6xf32>) -> tensor<?x6xf32> {
  %s = tosa.reduce_sum %x {axis = 1 : i32} : (tensor<?x6xf32>) -> tensor<?x1xf32>
  %r = tosa.sub %x, %s : (tensor<?x6xf32>, tensor<?x1xf32>) -> tensor<?x6xf32>
  return %r : tensor<?x6xf32>
}"""
    x = normal(5, 6)
    (result,) = evaluate(with_shapes(parse_text(text), {"x": (5, 6)}).graph, [x])
    np.testing.assert_allclose(result, x - x.sum(1, keepdims=True), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("attributes", ["stride = 2 : i64", "nan_mode = 1 : i32", 'pad = "SAME"'])
def test_tosa_attribute_of_wrong_kind_is_refused(attributes: str) -> None:
    kind = "tensor<1x2x3x1xf32>"
    text = f"func.func @main(%x: {kind}) -> {kind} {{\n  %r = tosa.max_pool2d %x {{kernel = array<i64: 1, 1>, {attributes}}} : ({kind}) -> {kind}\n  return %r : {kind}\n}}"
    with pytest.raises(ProgramError, match=f"tosa.max_pool2d: {attributes.partition(' ')[0]} must be"):
        parse_text(text)


def test_float_negate_ignores_zero_points() -> None:
    """Zero points that are known only at run time are ignored too, since zero points of floats must be 0."""
    x, zero = np.array([0.5, -0.5, 1.75, -3.25, 0.0], np.float32), np.zeros(1, np.float32)
    negate_case = Case({"x": x, "a": zero, "b": zero}, "", lambda x, a, b: -x)
    negate_case.body = call("negate", "%x, %a, %b", "tensor<5xf32>, tensor<1xf32>, tensor<1xf32>", "tensor<5xf32>")
    negate_case.matches()
    (signs,) = evaluate(parse_text(negate_case.text()).graph, [x, zero, zero])
    assert np.signbit(signs).tolist() == [True, False, True, False, True]


def test_nonzero_zero_point_of_floats_is_refused() -> None:
    constant = ZERO.replace("dense<0.0>", "dense<1.0>")
    text = f"func.func @main(%x: tensor<5xf32>) -> tensor<5xf32> {{\n{constant}\n%r = tosa.negate %x, %z, %z : (tensor<5xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<5xf32>\nreturn %r : tensor<5xf32>\n}}"
    with pytest.raises(ProgramError, match="zero points of f32 must be 0"):
        parse_text(text)
