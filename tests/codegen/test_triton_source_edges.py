"""Tests of generated kernels at numerical limits: overflow, signed zeros, NaN, denormals, 64-bit indices."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from bodies import ONE, Body, launch, random_args
from scipy.special import erfinv

from meshgen.codegen.building.build import build_kernels, request_of
from meshgen.codegen.triton_source import kernel_source
from meshgen.errors import CodegenError
from meshgen.ir.graph import DTYPES, Graph
from meshgen.mesh import make_mesh
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.registry import OPS
from meshgen.testing.generators.elementwise import takes

INF, NAN, LEAST = np.inf, np.nan, -(2**31)
UNARY = [
    ("tanh", "bf16", [1e-9, 1e-5, -3e-3, 0.5, 30, INF, NAN]),
    ("erf_inv", "f32", [0.5, 1, -1, 2, -3, NAN, 0, 1e-7]),
    ("erf_inv", "f64", [0.5, 0.95, -0.97, 1e-300, 1, -1, 2, NAN]),
    ("not", "ui8", [3, 0, 255]),
    ("negate", "f32", [0.0, -0.0, 2, -INF, NAN]),
    ("negate", "i8", [0, 5, -128]),
    ("round_nearest_even", "f32", [-0.2, -0.5, 0.5, 1.5, -2.5]),
    ("round_nearest_afz", "f64", [-0.2, -0.5, 0.5, 1.5, -2.5]),
]
BINARY = [
    *(
        ("power", dtype, [0, 2, 3, 1, 5, 7, 3], [64, 64, 65, 100, 127, 70, 33])
        for dtype in ("i32", "i64", "i8", "ui32", "ui8")
    ),
    (
        "power",
        "f32",
        [-1, 0.0, -0.0, -0.0, INF, -INF, 2, NAN, 1, -1, -INF],
        [INF, -1, -1, -2, -1, 3, INF, 0, NAN, -INF, 0.5],
    ),
    ("atan2", "f32", [NAN, 1, 0.0, -0.0, INF, -INF, 1, -0.0, 0.0], [1, NAN, -1, -1, INF, INF, -INF, 0.0, -0.0]),
    ("atan2", "f64", [1, -2.3, 0.3, 1e-3, -1e-300], [3, 0.2, -5, -1e3, 1.0]),
    ("divide", "i32", [7, -7, 7, -7, 5, LEAST, 0], [2, 2, -2, -2, 0, -1, 0]),
    ("remainder", "i32", [7, -7, 7, -7, 5, LEAST, 0], [2, 2, -2, -2, 0, -1, 0]),
    ("divide", "i8", [7, -128, 3], [0, -1, -2]),
    ("divide", "ui32", [2**32 - 1, 7, 7, 2**32 - 1], [2, 0, 2, 2**32 - 1]),
    ("remainder", "ui8", [255, 7, 7], [10, 0, 255]),
]
CONVERTED = [
    ("f32", "f8E4M3FN", [1e6, 448, 464, 480, NAN, INF, -1e9, 0.1]),
    ("f32", "f8E5M2", [1e6, 57344, 61439, 61440, NAN, INF, -INF, -0.1]),
    ("i32", "f8E4M3FN", [3, -300, 500]),
    ("f64", "f8E5M2", [0.3, -1e300]),
    ("f32", "i8", [NAN, INF, -INF, 300, -300, 2.7, -2.7]),
    ("f32", "ui8", [NAN, INF, -1, 300, 255.5]),
    ("bf16", "i16", [NAN, 1e6, -1e6, 2.5]),
    ("f32", "i32", [NAN, INF, -INF, 3e9, -3e9, 2.7]),
]  # fmt: skip


def agree(graph: Graph, args: list[np.ndarray]) -> None:
    """Check that kernel and reference agree within 16 ulps per element, including the signs of zeros."""
    source = kernel_source("edge", graph, ONE)
    with np.errstate(all="ignore"):
        (want,), (got,) = evaluate(graph, args), launch(source, graph, args)
    if want.dtype.kind in "iu":
        np.testing.assert_array_equal(got, want, err_msg=source.text)
        return
    unit = 16 * float(ml_dtypes.finfo(want.dtype).eps)
    wide = [np.asarray(array, np.float64) for array in (got, want)]
    np.testing.assert_allclose(wide[0], wide[1], rtol=unit, atol=0, err_msg=source.text)
    is_number = ~np.isnan(wide[1])
    np.testing.assert_array_equal(np.signbit(wide[0][is_number]), np.signbit(wide[1][is_number]))


@pytest.mark.parametrize("op, dtype, values", UNARY)
def test_unary_kernels_match_at_numerical_limits(op: str, dtype: str, values: list[float]) -> None:
    b = Body(f"{dtype}[{len(values)}]")
    agree(b.done(b.op(op, b.inputs[0])), [np.array(values).astype(DTYPES[dtype])])


def test_erf_inv_is_accurate_near_one() -> None:
    b = Body("f64[8]")
    x = np.array([0.5, 0.9599, 0.9601, -0.999999, 1 - 1e-10, -(1 - 1e-15), 0.3, 1e-9])
    (got,) = launch(kernel_source("k", b.done(b.op("erf_inv", b.inputs[0])), ONE), b.graph, [x])
    np.testing.assert_allclose(got, erfinv(x), rtol=2e-15)


@pytest.mark.parametrize("op, dtype, left, right", BINARY)
def test_binary_kernels_match_at_numerical_limits(op: str, dtype: str, left: list[float], right: list[float]) -> None:
    b = Body(*[f"{dtype}[{len(left)}]"] * 2)
    agree(b.done(b.op(op, *b.inputs)), [np.array(values).astype(DTYPES[dtype]) for values in (left, right)])


@pytest.mark.parametrize("divisor", [0, -1, 3])
@pytest.mark.parametrize("op", ["divide", "remainder"])
def test_integer_division_by_constant_matches_reference(op: str, divisor: int) -> None:
    b = Body("i32[4]")
    splat = b.splat(divisor, b.inputs[0])
    agree(b.done(b.op(op, b.inputs[0], splat)), [np.array([7, -7, LEAST, 0], np.int32)])


OF_CONSTANTS = [
    (op.name, dtype, place)
    for op in OPS.values()
    for dtype in ("i32", "f32")
    for place in (0, 1)
    if len(op.domains) == 2 and callable(op.kernel) and takes(op.name, dtype)
]


@pytest.mark.parametrize("op, dtype, operand_index", OF_CONSTANTS)
def test_binary_ops_accept_a_constant_on_either_side(op: str, dtype: str, operand_index: int) -> None:
    """Check constants, which are Python numbers in the source and so have no methods."""
    b = Body(f"{dtype}[4]")
    operands = [b.splat(2, b.inputs[0]), b.inputs[0]]
    graph = b.done(b.op(op, *(operands if operand_index == 0 else operands[::-1])))
    agree(graph, [np.array([1, 3, 2, 5]).astype(DTYPES[dtype])])


@pytest.mark.parametrize("source, target, values", CONVERTED)
def test_conversions_saturate_like_the_reference(source: str, target: str, values: list[float]) -> None:
    b = Body(f"{source}[{len(values)}]")
    agree(
        b.done(b.op("convert", b.inputs[0], to=f"{target}[{len(values)}]")), [np.array(values).astype(DTYPES[source])]
    )


@pytest.mark.parametrize("dtype, far", [("i32", -1), ("ui32", 2**32 - 1), ("ui64", 2**64 - 1), ("i64", 2**40)])
def test_lookup_indices_are_clamped_in_their_own_dtype(dtype: str, far: int) -> None:
    b = look_up("f32[10,3]", f"{dtype}[3,1]", 3)
    agree(b.graph, [random_args(b.graph)[0], np.array([[5], [far], [200]], DTYPES[dtype])])


def look_up(table: str, indices: str, columns: int) -> Body:
    b = Body(table, indices)
    count, dtype = b.inputs[1].type.sizes[0], b.inputs[0].type.dtype
    attrs = {"offset_dims": (1,), "collapsed_slice_dims": (0,), "start_index_map": (0,), "index_vector_dim": 1,
             "slice_sizes": (1, columns), "operand_batching_dims": (), "start_indices_batching_dims": ()}  # fmt: skip
    b.done(b.op("gather", *b.inputs, to=f"{dtype}[{count},{columns}]", **attrs))
    return b


def test_lookup_beyond_2_to_the_31_elements_is_correct() -> None:
    b = look_up("i8[40000,65536]", "i32[2,1]", 65536)
    table = np.zeros((40000, 65536), np.int8)  # the operating system allocates only the pages that are touched
    table[39999] = 7
    (got,) = launch(kernel_source("k", b.graph, ONE), b.graph, [table, np.array([[39999], [3]], np.int32)])
    assert (got[0] == 7).all()
    assert not got[1].any()


def test_offsets_of_large_tensors_are_64_bit() -> None:
    b = Body("f32[131072,65536]")
    mesh = make_mesh({"x": 4})
    b.done(b.op("all_slice", b.inputs[0], to="f32[32768,65536]", dim=0, axes=("x",)))
    assert "index_x_wide = index_x.to(tl.int64)" in kernel_source("k", b.graph, mesh).text
    b = Body("bf16[4,65536]", "bf16[65536,40000]")
    # sm_80 has no TMA descriptors
    text = kernel_source("k", b.done(b.dot(*b.inputs, ((1,), (0,)))), ONE, "cuda:sm_80").text
    assert "tl.arange(0, BLOCK_K)[:" not in text and text.count(".to(tl.int64)") == 5
    b = Body("f32[65536]", "f32[65536]")  # neither operand is large, but their outer product is
    outer = b.op("multiply", b.wide(b.inputs[0], Body("f32[65536,65536]").inputs[0], (0,)),
                 b.wide(b.inputs[1], Body("f32[65536,65536]").inputs[0], (1,)))  # fmt: skip
    assert ".to(tl.int64)" in kernel_source("k", b.done(b.reduce("add", outer, 0, 1)), ONE).text


@pytest.mark.parametrize("names", [("k_row_2", "k_col_w"), ("x²", "ﬁ"), ("tl", "acc"), ("ß", "ß")])
def test_value_names_do_not_clash_with_source_names(names: tuple[str, str]) -> None:
    b = Body("f32[40,70]", "f32[70,50]")
    for value, name in zip(b.inputs, names, strict=True):
        value.name = name
    graph = b.done(b.dot(*b.inputs, ((1,), (0,))))
    args = random_args(graph)
    np.testing.assert_allclose(launch(kernel_source("k", graph, ONE), graph, args)[0], args[0] @ args[1], atol=1e-4)


def test_kernel_named_like_its_device_function_works() -> None:
    b = Body("f32[4]", "f32[4]", name="power")
    source = kernel_source("power", b.done(b.op("power", *b.inputs)), ONE)
    args = [np.array([2, 3, 1, 9], np.float32), np.array([3, 2, 8, 0.5], np.float32)]
    np.testing.assert_allclose(launch(source, b.graph, args)[0], [8, 9, 1, 3], rtol=1e-5)


@pytest.mark.parametrize("right", ["f8E4M3FN", "f8E5M2"])
def test_f8_gemms_compile_only_for_supporting_architectures(right: str, tmp_path: Path) -> None:
    b = Body("f8E4M3FN[33,65]", f"{right}[65,40]")
    graph = b.done(b.dot(*b.inputs, ((1,), (0,)), dtype="f32"))
    source = kernel_source("k", graph, ONE)
    args = random_args(graph)
    expected = np.asarray(args[0], np.float32) @ np.asarray(args[1], np.float32)
    np.testing.assert_allclose(launch(source, graph, args)[0], expected, atol=1e-4)
    build_kernels([request_of("k", source, graph)], ["sm_90"], tmp_path, 1)
    with pytest.raises(CodegenError, match=r"MG0301.*f8E4M3FN, which sm_80 lacks"):
        build_kernels([request_of("k", source, graph)], ["sm_90", "sm_80"], tmp_path, 1)


def test_gemm_accumulates_in_the_result_dtype() -> None:
    b = Body("f32[5,70]", "f32[70,3]")
    agree(b.done(b.dot(*b.inputs, ((1,), (0,)), dtype="f64")), random_args(b.graph))
