"""Tests of generated Triton kernels against the NumPy reference: element-wise ops, index maps, dtypes."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import Body, check, launch, random_args

from meshgen.codegen.triton_source import kernel_source
from meshgen.errors import CodegenError
from meshgen.mesh import make_mesh

UNARY = (
    "abs",
    "negate",
    "floor",
    "ceil",
    "round_nearest_even",
    "round_nearest_afz",
    "sign",
)  # `test_device_functions` covers other functions
BINARY = ("add", "subtract", "multiply", "divide", "maximum", "minimum", "atan2")
SHIFTS = ("shift_left", "shift_right_logical", "shift_right_arithmetic")
INTEGERS = ("add", "subtract", "multiply", "divide", "remainder", "maximum", "minimum", "and", "or", "xor", "power")


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
@pytest.mark.usefixtures("one_element_per_thread")
def test_unary_kernels_match_reference(dtype: str) -> None:
    b = Body(f"{dtype}[6,7]")
    rng = np.random.default_rng(1)
    x = (rng.standard_normal((6, 7)) * np.geomspace(1e-3, 4, 7)).astype(b.inputs[0].type.numpy_dtype)
    x.flat[:5] = [0.5, 1.5, 2.5, 1.0, 2.0]
    check(b.done(*(b.op(op, b.inputs[0]) for op in UNARY)), args=[x])


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f64"])
@pytest.mark.usefixtures("one_element_per_thread")
def test_binary_kernels_match_reference(dtype: str) -> None:
    b = Body(f"{dtype}[3,50]", f"{dtype}[3,50]")
    check(b.done(*(b.op(op, *b.inputs) for op in BINARY)), ulps=16)


def test_float_power_matches_reference() -> None:
    b = Body("f32[6]", "f32[6]")
    x = np.array([2, -2, 0, 3, 1, -8], np.float32)
    y = np.array([0.5, 3, 2, 0, 9, -1], np.float32)
    check(b.done(b.op("power", *b.inputs)), args=[x, y], ulps=16)


@pytest.mark.parametrize("dtype", ["i32", "i64", "i8", "ui32"])
@pytest.mark.usefixtures("one_element_per_thread")
def test_integer_ops_match_reference(dtype: str) -> None:
    b = Body(*[f"{dtype}[40]"] * 3)
    left, right, count = b.inputs
    rng = np.random.default_rng(2)
    low = 0 if dtype.startswith("u") else -9
    x, y, shift = (rng.integers(*limits, 40).astype(left.type.numpy_dtype) for limits in ((low, 10), (1, 5), (1, 5)))
    shift[:2] = 40
    results = [b.op(op, left, right) for op in INTEGERS] + [b.op(op, left, count) for op in SHIFTS]
    check(b.done(*results), args=[x, y, shift])


@pytest.mark.parametrize("dtype", ["i8", "ui8", "i32", "ui32"])
def test_mulhi_kernel_matches_reference(dtype: str) -> None:
    b = Body(f"{dtype}[40]", f"{dtype}[40]")
    kind = b.inputs[0].type.numpy_dtype
    rng, limits = np.random.default_rng(2), np.iinfo(kind)
    x, y = (rng.integers(limits.min, limits.max, 40, kind, endpoint=True) for _ in range(2))
    check(b.done(b.op("mulhi", *b.inputs)), args=[x, y])


def test_boolean_ops_match_reference() -> None:
    b = Body("i1[9]", "i1[9]")
    ops = ("and", "or", "xor", "maximum", "minimum", "add", "multiply")
    check(b.done(*(b.op("not", b.op(op, *b.inputs)) for op in ops)))


def test_unary_integer_ops_match_reference() -> None:
    b = Body("i32[9]")
    x = np.array([0, 1, -1, 5, -77, 2**31 - 1, 256, 12345, 3], np.int32)
    ops = ("not", "popcnt", "count_leading_zeros", "abs", "negate", "sign")
    check(b.done(*(b.op(op, b.inputs[0]) for op in ops)), args=[x])


@pytest.mark.parametrize("dtype", ["f32", "i32", "i1", "ui8", "bf16"])
def test_compare_and_select_match_reference(dtype: str) -> None:
    b = Body(f"{dtype}[5,7]", f"{dtype}[5,7]")
    x, y = b.inputs
    tests = [
        b.op("compare", x, y, to="i1[5,7]", direction=direction, compare_type="")
        for direction in ("EQ", "NE", "GE", "GT", "LE", "LT")
    ]
    args = random_args(b.graph)
    args[1][0] = args[0][0]
    check(b.done(*tests, *(b.op("select", test, x, y) for test in tests)), args=args)


def test_convert_kernel_matches_reference() -> None:
    targets = {"f32": ("bf16", "i32", "f16", "i1"), "bf16": ("f32",), "i32": ("f32", "i1", "i64"), "i1": ("f32",), "f64": ("f32",),
               "i8": ("i32",), "ui8": ("bf16",)}  # fmt: skip
    b = Body(*(f"{source}[3,21]" for source in targets))
    pairs = [
        (x, target) for x, target_dtypes in zip(b.inputs, targets.values(), strict=True) for target in target_dtypes
    ]
    check(b.done(*(b.op("convert", x, to=f"{target}[3,21]") for x, target in pairs)), ulps=0.5)


@pytest.mark.parametrize("source, target", [("f32", "i32"), ("i32", "f32"), ("bf16", "i16"), ("i16", "bf16")])
def test_bitcast_kernel_matches_reference(source: str, target: str) -> None:
    b = Body(f"{source}[3,21]")
    check(b.done(b.op("bitcast_convert", b.inputs[0], to=f"{target}[3,21]")), ulps=0)


def test_clamp_and_scalar_kernels_match_reference() -> None:
    b = Body("f32[]", "f32[4,5]", "f32[]")
    check(
        b.done(b.op("clamp", *b.inputs)),
        args=[np.asarray(-0.5, np.float32), random_args(b.graph)[1], np.asarray(0.5, np.float32)],
    )
    b = Body("f32[]", "f32[]")
    check(b.done(b.op("add", *b.inputs)))


def test_causal_mask_kernel_matches_reference() -> None:
    b = Body("bf16[2,3,17,17]")
    (x,) = b.inputs
    i, j = (b.op("iota", to="i32[17,17]", dim=d) for d in (0, 1))
    mask = b.op("compare", i, j, to="i1[17,17]", direction="GE", compare_type="SIGNED")
    wide = b.op("broadcast_in_dim", mask, to="i1[2,3,17,17]", dims=(2, 3))
    check(b.done(b.op("select", wide, x, b.splat(-1e9, x))))


@pytest.mark.parametrize(
    "low, high, interior", [((1, 0), (2, 3), (0, 0)), ((-1, 2), (0, -2), (0, 0)), ((0, 1), (1, 0), (2, 1))]
)
def test_pad_kernel_matches_reference(low: tuple[int, ...], high: tuple[int, ...], interior: tuple[int, ...]) -> None:
    b = Body("f32[4,6]", "f32[]")
    check(b.done(b.op("pad", *b.inputs, low=low, high=high, interior=interior)), ulps=0)


def test_composed_index_maps_kernel_matches_reference() -> None:
    b = Body("f32[4,6]", "f32[3,6]")
    x, y = b.inputs
    joined = b.op("concatenate", x, y, x, dim=0)
    strided = b.op("slice", joined, start=(1, 0), limit=(10, 6), stride=(2, 3))
    reversed_value = b.op("reverse", b.op("transpose", strided, perm=(1, 0)), dims=(1,))
    check(b.done(b.op("reshape", reversed_value, to="f32[5,2]")), ulps=0)


@pytest.mark.parametrize(
    "shape, perm", [((40, 200), (1, 0)), ((3, 70, 65), (0, 2, 1)), ((33, 4, 64), (2, 1, 0)), ((64, 1, 128), (2, 1, 0))]
)
def test_transpose_uses_square_tiles(shape: tuple[int, ...], perm: tuple[int, ...]) -> None:
    b = Body(f"bf16[{','.join(map(str, shape))}]")
    source = check(b.done(b.op("exponential", b.op("transpose", b.inputs[0], perm=perm))))
    assert "SIDE" in source.constants


def test_embedding_lookup_clamps_indices() -> None:
    b = Body("bf16[11,24]", "i32[3,5]")
    table, ids = b.inputs
    indices = b.op("reshape", ids, to="i32[3,5,1]")
    y = b.op("gather", table, indices, offset_dims=(2,), collapsed_slice_dims=(0,), operand_batching_dims=(),
             start_indices_batching_dims=(), start_index_map=(0,), index_vector_dim=2, slice_sizes=(1, 24),
             indices_are_sorted=False)  # fmt: skip
    # indices out of bounds on either side are clamped
    args = [random_args(b.graph)[0], np.arange(-2, 13, dtype=np.int32).reshape(3, 5)]
    check(b.done(y), args=args, ulps=0)


def test_gather_kernel_of_windows_matches_reference() -> None:
    b = Body("f32[6,7,4]", "i32[5,2]")
    y = b.op("gather", *b.inputs, offset_dims=(1, 2, 3), collapsed_slice_dims=(), operand_batching_dims=(),
             start_indices_batching_dims=(), start_index_map=(1, 0), index_vector_dim=1, slice_sizes=(2, 3, 4),
             indices_are_sorted=False)  # fmt: skip
    check(b.done(y), ulps=0)


def test_dynamic_slice_and_update_kernels_match_reference() -> None:
    b = Body("f32[8,9]", "f32[2,3]", "i32[]", "i32[]")
    x, u, i, j = b.inputs
    window = b.op("dynamic_slice", x, i, j, slice_sizes=(2, 3))
    check(b.done(window), ulps=0)
    b = Body("f32[8,9]", "f32[2,3]", "i32[]", "i32[]")
    x, u, i, j = b.inputs
    check(b.done(b.op("dynamic_update_slice", x, u, i, j)), ulps=0)


def test_constant_kernel_matches_reference() -> None:
    b = Body()
    check(b.done(b.op("broadcast_in_dim", b.constant(2.5, "bf16"), to="bf16[3,5]", dims=())), ulps=0)


def test_kernel_of_empty_result_has_empty_grid() -> None:
    b = Body("f32[0,4]")
    assert 0 in kernel_source("empty", b.done(b.op("negate", b.inputs[0])), make_mesh({"x": 1})).grid


@pytest.mark.parametrize("index", range(4))
def test_device_coordinates_are_kernel_arguments(index: int) -> None:
    """Check 10 rows over 4 devices in tiles of 3. The last device has one row and two padding rows."""
    mesh = make_mesh({"x": 4, "y": 2})
    b = Body("f32[10,5]")
    part = b.op("all_slice", b.inputs[0], to="f32[3,5]", axes=("x",), dim=0)
    masked = b.op("mask_padding", part, to="f32[3,5]", dim=0, axes=("x",), size=10, fill=0.0)
    partial = b.op("to_partial", b.reduce("add", masked, 0), to="f32[5]", axes=("x",), kind="sum")
    device_index = b.op("convert", b.op("process_index", to="i32[]", axes=("y", "x")), to="f32[]")
    body = b.done(b.op("add", partial, b.wide(device_index, partial, ())))
    source = kernel_source("part", body, mesh)
    x = random_args(body)[0]
    coordinates = {("x",): index, ("y", "x"): 4 + index}
    (result,) = launch(source, body, [x], coordinates)
    want = (x[3 * index : 3 * index + 3].sum(0) if index == 0 else np.zeros(5)) + 4 + index
    np.testing.assert_allclose(result, want, atol=8 * 2.0**-24 * 8)
    assert sorted(axes for kind, axes in source.params if kind == "coordinate") == [("x",), ("y", "x")]


def test_all_unsupported_ops_are_reported() -> None:
    b = Body("f32[4]", "i4[4]")
    x = b.op("lapack", b.inputs[0], to="f32[4]", routine="")
    with pytest.raises(CodegenError) as caught:
        kernel_source("sorting", b.done(b.op("rng", x, to="f32[4]")), make_mesh({"x": 1}))
    assert [d.code for d in caught.value.diagnostics] == ["MG0301"] * 3


def test_complex_kernel_is_rejected() -> None:
    """Check complex values that remain in a program for CPUs; kernels do not support them."""
    b = Body()
    total = b.reduce("add", b.constant(3 + 4j, "c64"))
    with pytest.raises(CodegenError, match="MG0301"):
        kernel_source("total", b.done(b.op("abs", total, to="f32[]")), make_mesh({"x": 1}))
