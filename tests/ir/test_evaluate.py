"""The evaluator against NumPy formulas, XLA's own results (jax) and hand-made tables."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from meshgen.errors import ProgramError
from meshgen.ir.evaluate import HANDLERS, evaluate, evaluate_node
from meshgen.ir.graph import DTYPES, Graph, Node, TensorType, Value, dtype_name
from meshgen.ir.infer import INFERENCE, infer_types, verify_node

BF16 = np.dtype(ml_dtypes.bfloat16)
INTS = ("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64")


def type_of(array: np.ndarray[Any, Any]) -> TensorType:
    return TensorType(array.shape, dtype_name(array.dtype))


def run(op: str, *args: Any, results: list[TensorType] | None = None, regions: tuple[Graph, ...] = (), **attrs: Any):
    """Infer, verify, evaluate; the arrays have the inferred types."""
    arrays = [np.asarray(a) for a in args]
    types = results or infer_types(op, attrs, [type_of(a) for a in arrays], regions)
    assert types is not None
    node = Node(op, [Value(type_of(a)) for a in arrays], [Value(t) for t in types], attrs, regions=regions)
    assert verify_node(node) == []
    found = evaluate_node(node, arrays)
    assert [type_of(f) for f in found] == types
    return found[0] if len(found) == 1 else found


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def scalar_region(*ops: str, dtype: str = "f32") -> Graph:
    """(a, b) -> ops applied in turn to (a, b), then (result, b)."""
    graph = Graph("region")
    a, b = Value(TensorType((), dtype)), Value(TensorType((), dtype))
    graph.inputs = [a, b]
    for op in ops:
        a = graph.add(op, [a, b], [TensorType((), dtype)]).result
    graph.outputs = [a]
    return graph


def compare_region(direction: str, *dtypes: str) -> Graph:
    graph = Graph("comparator", [Value(TensorType((), d)) for d in dtypes for _ in range(2)])
    node = graph.add("compare", graph.inputs[:2], [TensorType((), "i1")], {"direction": direction, "compare_type": ""})
    graph.outputs = [node.result]
    return graph


def second_region(dtype: str = "f32") -> Graph:
    """(a, b) -> b."""
    graph = Graph("second", [Value(TensorType((), dtype)), Value(TensorType((), dtype))])
    graph.outputs = [graph.inputs[1]]
    return graph


def test_every_op_with_a_meaning_has_a_type_rule() -> None:
    assert [op for op in HANDLERS if op not in INFERENCE] == []


# Element-wise ---------------------------------------------------------------------------------------------------


def test_bf16_rounds_to_nearest_even_after_every_op() -> None:
    x = np.array([1.0, 1.0, 256.0, 3.0], BF16)
    y = np.array([2**-8, 3 * 2**-8, 1.0, -0.0], BF16)  # ties: 1 + 2^-8 goes down to even, 1 + 3 2^-8 goes up
    assert run("add", x, y).tolist() == [1.0, 1 + 2**-6, 256.0, 3.0]


@pytest.mark.parametrize("dtype", INTS)
def test_integer_division_truncates_and_never_traps(dtype: str) -> None:
    kind = DTYPES[dtype]
    limits = np.iinfo(kind)
    signed = limits.min < 0
    x = np.array([7, -7, 7, -7, limits.min, 5, -5, 0] if signed else [7, 250, 0, 1, limits.max, 5, 9, 0], kind)
    y = np.array([2, 2, -2, -2, -1, 0, 0, 0] if signed else [2, 100, 3, 1, 1, 0, 0, 0], kind)
    quotient = [3, -3, -3, 3, limits.min, -1, -1, -1] if signed else [3, 2, 0, 1, limits.max] + [limits.max] * 3
    rest = [1, -1, 1, -1, 0, 5, -5, 0] if signed else [1, 50, 0, 0, 0, 5, 9, 0]
    assert run("divide", x, y).tolist() == quotient
    assert run("remainder", x, y).tolist() == rest


def test_float_remainder_has_the_sign_of_the_dividend() -> None:
    assert run("remainder", np.float32([5.5, -5.5]), np.float32([2, 2])).tolist() == [1.5, -1.5]


@pytest.mark.parametrize("dtype", INTS)
def test_shifts_past_the_width(dtype: str) -> None:
    width = DTYPES[dtype].itemsize * 8
    amounts = np.array([0, 1, width - 1, width, width + 3, 100]).astype(DTYPES[dtype])
    ones = np.full(6, -1, np.int64).astype(DTYPES[dtype])
    mask = (1 << width) - 1
    left = [(-1 << int(a)) & mask if a < width else 0 for a in amounts.tolist()]
    right = [mask >> int(a) if a < width else 0 for a in amounts.tolist()]

    def unsigned(x: np.ndarray[Any, Any]) -> list[int]:
        return [int(v) & mask for v in x.tolist()]

    assert unsigned(run("shift_left", ones, amounts)) == left
    assert unsigned(run("shift_right_logical", ones, amounts)) == right
    arithmetic = [mask] * 6 if dtype.startswith("i") else [*right[:3], *[int(mask >> width - 1)] * 3]
    assert unsigned(run("shift_right_arithmetic", ones, amounts)) == arithmetic


def test_integer_power() -> None:
    x, y = np.int32([2, -2, 1, -1, -1, 3, 0]), np.int32([10, 3, -5, -5, -4, -1, 0])
    assert run("power", x, y).tolist() == [1024, -8, 1, -1, 1, 0, 1]


def test_compare_of_nan_signed_zero_and_signedness() -> None:
    x, y = np.float32([np.nan, 0.0, 1.0]), np.float32([np.nan, -0.0, np.nan])
    table = {"EQ": [False, True, False], "NE": [True, False, True], "LT": [False] * 3, "GE": [False, True, False]}
    for direction, expected in table.items():
        assert run("compare", x, y, direction=direction, compare_type="FLOAT").tolist() == expected
    ordered = np.float32([-np.inf, -1, -0.0, 0.0, 1, np.inf, np.nan])
    for dtype in (np.float32, np.float64, np.float16, BF16):
        chain = run(
            "compare", ordered[:-1].astype(dtype), ordered[1:].astype(dtype), direction="LT", compare_type="TOTALORDER"
        )
        assert chain.all()
    negative_nan = np.array([0xFFC00000], np.uint32).view(np.float32)
    assert run("compare", negative_nan, np.float32([-np.inf]), direction="LT", compare_type="TOTALORDER").all()
    assert run("compare", np.int8([-1]), np.int8([1]), direction="GT", compare_type="UNSIGNED").all()
    assert run("compare", np.int8([-1]), np.int8([1]), direction="LT", compare_type="SIGNED").all()


def test_convert_clamps_floats_and_wraps_integers() -> None:
    x = np.float32([np.nan, np.inf, -np.inf, 1e10, -1e10, 2.9, -2.9, 300])
    expected = {
        "i32": [0, 2**31 - 1, -(2**31), 2**31 - 1, -(2**31), 2, -2, 300],
        "ui8": [0, 255, 0, 255, 0, 2, 0, 255],
        "i64": [0, 2**63 - 1, -(2**63), 10**10, -(10**10), 2, -2, 300],
        "ui64": [0, 2**64 - 1, 0, 10**10, 0, 2, 0, 300],
        "i1": [True, True, True, True, True, True, True, True],
    }
    for dtype, values in expected.items():
        assert run("convert", x, results=[TensorType(x.shape, dtype)]).tolist() == values, dtype
    assert run("convert", np.int32([300, -1]), results=[TensorType((2,), "ui8")]).tolist() == [44, 255]
    assert run("convert", np.array([True, False]), results=[TensorType((2,), "bf16")]).tolist() == [1, 0]
    assert run("convert", np.float32(1 + 2**-8), results=[TensorType((), "bf16")]) == 1.0


def test_rounding_signs_and_bits() -> None:
    x = np.float32([0.5, 1.5, 2.5, -0.5, 0.49999997, -2.5, -0.0])
    assert run("round_nearest_even", x).tolist() == [0, 2, 2, 0, 0, -2, 0]
    assert run("round_nearest_afz", x).tolist() == [1, 2, 3, -1, 0, -3, 0]
    assert np.signbit(run("sign", np.float32([-0.0])))[0] and np.isnan(run("sign", np.float32([np.nan])))[0]
    for dtype in INTS:
        width = DTYPES[dtype].itemsize * 8
        values = np.array([0, 1, 5, -1]).astype(DTYPES[dtype])
        assert run("popcnt", values).tolist() == [0, 1, 2, width]
        assert run("count_leading_zeros", values).tolist() == [width, width - 1, width - 3, 0]


def test_erf_and_its_inverse() -> None:
    special = pytest.importorskip("scipy.special")
    x = np.linspace(-5, 5, 101)
    assert np.abs(run("erf", x) - special.erf(x)).max() <= 4 * np.finfo(np.float64).eps
    y = np.concatenate([np.linspace(-1, 1, 101), [1e-8, 0.9999999, -0.99999999]])
    inverse = special.erfinv(y)
    finite = np.isfinite(inverse)
    found = run("erf_inv", y)
    # near 1 the condition number of erf_inv multiplies the rounding of its argument
    slope = np.sqrt(np.pi) / 2 * np.exp(np.minimum(inverse**2, 40))
    bound = np.finfo(np.float64).eps * (8 * np.abs(inverse) + 8 * slope)
    assert (np.abs(found[finite] - inverse[finite]) <= bound[finite]).all()
    assert found[0] == -np.inf and found[100] == np.inf and np.isnan(run("erf_inv", np.float64([1.5])))[0]


def test_clamp_and_select_take_scalars() -> None:
    x = normal(3, 4)
    assert (run("clamp", np.float32(-0.5), x, np.float32(0.5)) == np.clip(x, -0.5, 0.5)).all()
    assert (run("select", np.bool_(False), x, -x) == -x).all()
    assert (run("select", x > 0, x, -x) == np.abs(x)).all()


def test_bitcast_changes_the_last_dim() -> None:
    x = np.arange(6, dtype=np.uint32).reshape(2, 3)
    bytes_ = run("bitcast_convert", x, results=[TensorType((2, 3, 4), "ui8")])
    assert (bytes_ == x.view(np.uint8).reshape(2, 3, 4)).all()
    assert (run("bitcast_convert", bytes_, results=[TensorType((2, 3), "ui32")]) == x).all()
    assert run("bitcast_convert", np.float32(1), results=[TensorType((), "i32")]) == 0x3F800000


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16", "f64"])
@pytest.mark.parametrize("op, reference", [("exponential", np.exp), ("tanh", np.tanh), ("log", np.log), ("cbrt", np.cbrt),
                                           ("logistic", lambda x: 1 / (1 + np.exp(-x))), ("rsqrt", lambda x: 1 / np.sqrt(x)),
                                           ("log_plus_one", np.log1p), ("exponential_minus_one", np.expm1), ("sine", np.sin)])  # fmt: skip
def test_functions_are_right_to_a_few_ulp(op: str, reference: Any, dtype: str) -> None:
    x = np.abs(normal(64, seed=3)).astype(DTYPES[dtype])
    exact = reference(x.astype(np.float64))
    unit = {"f64": 2.0**-53, "f32": 2.0**-24, "bf16": 2.0**-8, "f16": 2.0**-11}[dtype]
    unit = max(unit, 2.0**-52)  # the reference itself is a double
    assert (np.abs(run(op, x).astype(np.float64) - exact) <= 6 * unit * np.maximum(np.abs(exact), 2**-14)).all()


# Structure ------------------------------------------------------------------------------------------------------


def test_pad_negative_and_interior_matches_xla() -> None:
    lax = pytest.importorskip("jax.lax")
    x = normal(4, 3)
    for config in [
        ((1, 2, 0), (0, 0, 1)),
        ((-1, 0, 2), (2, -1, 0)),
        ((-2, -2, 1), (0, 0, 0)),
        ((3, -5, 1), (-1, 1, 3)),
    ]:
        low, high, interior = zip(*config, strict=True)
        found = run("pad", x, np.float32(9), low=low, high=high, interior=interior)
        assert (found == np.asarray(lax.pad(x, np.float32(9), config))).all()
    assert run("pad", np.zeros((0,), np.float32), np.float32(1), low=(2,), high=(0,), interior=(3,)).tolist() == [1, 1]


def test_slices_reverse_concatenate_iota_broadcast() -> None:
    x = np.arange(24).reshape(4, 6)
    assert (run("slice", x, start=(1, 0), limit=(4, 6), stride=(2, 5)) == x[1:4:2, ::5]).all()
    assert (run("reverse", x, dims=(1,)) == x[:, ::-1]).all()
    assert (run("concatenate", x, x[:0], x[:1], dim=0) == np.concatenate([x, x[:1]])).all()
    assert run("iota", results=[TensorType((2, 3), "bf16")], dim=1).tolist() == [[0, 1, 2]] * 2
    wide = run("broadcast_in_dim", x[:, :1], results=[TensorType((3, 7, 4), "i64")], dims=(2, 0))
    assert (wide == np.broadcast_to(x[:, 0][None, None], (3, 7, 4))).all()
    assert run("broadcast_in_dim", np.float32(2), results=[TensorType((2, 2), "f32")], dims=()).tolist() == [[2, 2]] * 2


GATHERS = [
    # operand, indices, attributes: a take, windows with clamping, an index vector inside, batching dims
    ((10, 4), [[0], [99], [-3]], {"offset_dims": (1,), "collapsed": (0,), "batching": ((), ()), "index_map": (0,), "vector": 1, "sizes": (1, 4)}),
    ((5, 6), [[0, 0], [4, 5], [2, -7]], {"offset_dims": (0, 2), "collapsed": (), "batching": ((), ()), "index_map": (1, 0), "vector": 1, "sizes": (2, 3)}),
    ((5, 6), [[0, 1, 2], [3, 2, 1]], {"offset_dims": (1,), "collapsed": (0,), "batching": ((), ()), "index_map": (0, 1), "vector": 0, "sizes": (1, 6)}),
    ((3, 5), [[0, 4], [1, 1], [9, 2]], {"offset_dims": (), "collapsed": (1,), "batching": ((0,), (0,)), "index_map": (1,), "vector": 2, "sizes": (1, 1)}),
]  # fmt: skip


@pytest.mark.parametrize("shape, indices, case", GATHERS)
def test_gather_matches_xla(shape: tuple[int, ...], indices: Any, case: dict[str, Any]) -> None:
    lax = pytest.importorskip("jax.lax")
    x, index = normal(*shape), np.array(indices, np.int32)
    found = run("gather", x, index, offset_dims=case["offset_dims"], collapsed_slice_dims=case["collapsed"],
                operand_batching_dims=case["batching"][0], start_indices_batching_dims=case["batching"][1],
                start_index_map=case["index_map"], index_vector_dim=case["vector"], slice_sizes=case["sizes"])  # fmt: skip
    numbers = lax.GatherDimensionNumbers(case["offset_dims"], case["collapsed"], case["index_map"], *case["batching"])
    last = index[..., None] if case["vector"] == index.ndim else np.moveaxis(index, case["vector"], -1)
    expected = lax.gather(x, last, numbers, case["sizes"], mode=lax.GatherScatterMode.CLIP)
    assert (found == np.asarray(expected)).all()


def test_dynamic_slices_stay_inside() -> None:
    x = np.arange(12).reshape(3, 4)
    assert (run("dynamic_slice", x, np.int32(5), np.int32(-2), slice_sizes=(2, 3)) == x[1:, :3]).all()
    expected = x.copy()
    expected[1:, 2:] = 0
    assert (run("dynamic_update_slice", x, np.zeros((2, 2), np.int64), np.int32(1), np.int32(9)) == expected).all()


# Contractions ---------------------------------------------------------------------------------------------------


def test_dot_general_in_full_generality() -> None:
    left, right = normal(3, 2, 5, 4, seed=1), normal(4, 7, 3, 2, 6, seed=2)
    found = run("dot_general", left, right, lhs_batch=(1, 0), rhs_batch=(3, 2), lhs_contract=(3,), rhs_contract=(0,))
    expected = np.einsum("baik,kjbal->abijl", left, right)
    bound = 2 * (4 + 1) * 2.0**-24 * np.einsum("baik,kjbal->abijl", np.abs(left), np.abs(right))
    assert found.shape == (2, 3, 5, 7, 6) and (np.abs(found - expected) <= bound).all()
    assert (
        run(
            "dot_general", left[0, 0], left[0, 0], lhs_batch=(), rhs_batch=(), lhs_contract=(0, 1), rhs_contract=(0, 1)
        ).shape
        == ()
    )


def test_dot_accumulates_wide_and_rounds_once() -> None:
    ones = np.ones((1, 4096), BF16)
    contract = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (1,)}
    assert run("dot_general", ones, ones, **contract)[0, 0] == 4096  # a bf16 accumulator would stop at 256
    small = np.full((1, 300), 127, np.int8)
    assert run("dot_general", small, small, results=[TensorType((1, 1), "i32")], **contract)[0, 0] == 300 * 127 * 127
    big = np.full((1, 2), 2**40, np.int64)
    assert run("dot_general", big, np.int64([[3, 1]]), **contract)[0, 0] == 2**42
    empty = np.zeros((2, 0), np.float32)
    assert run("dot_general", empty, empty, **contract).tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("kind, dtype, expected", [("add", "f32", 10.0), ("maximum", "i32", 3), ("minimum", "f32", 0.0),
                                                   ("multiply", "i32", 0), ("xor", "i32", 0), ("or", "i1", True),
                                                   ("and", "i1", False), ("add", "i1", True)])  # fmt: skip
def test_reduce_kinds(kind: str, dtype: str, expected: Any) -> None:
    x = np.array([0, 1, 2, 3]).astype(DTYPES[dtype])
    init = {"add": 4 if dtype == "f32" else 0, "minimum": 9, "multiply": 1, "and": True}.get(kind, 0)
    assert run("reduce", x, np.array(init).astype(DTYPES[dtype]), dims=(0,), kind=kind) == expected


def test_reduce_of_nothing_nan_and_bf16() -> None:
    assert run("reduce", np.zeros((0, 2), np.float32), np.float32(3), dims=(0,), kind="add").tolist() == [3, 3]
    assert run("reduce", np.zeros((2, 0), np.int32), np.int32(7), dims=(1,), kind="maximum").tolist() == [7, 7]
    assert np.isnan(run("reduce", np.float32([1, np.nan]), np.float32(-np.inf), dims=(0,), kind="maximum"))
    assert run("reduce", np.ones(4096, BF16), BF16.type(0), dims=(0,), kind="add") == 4096
    assert run("reduce", np.float32(5), np.float32(1), dims=(), kind="add") == 6


def test_reduce_region_computes_argmax_with_first_of_equals() -> None:
    region = Graph("argmax", [Value(TensorType((), d)) for d in ("f32", "i32", "f32", "i32")])
    a, i, b, j = region.inputs
    flag = TensorType((), "i1")

    def compare(x: Value, y: Value, direction: str) -> Value:
        return region.add("compare", [x, y], [flag], {"direction": direction, "compare_type": ""}).result

    tie = region.add("and", [compare(a, b, "EQ"), compare(i, j, "LT")], [flag]).result
    keep = region.add("or", [compare(a, b, "GT"), tie], [flag]).result
    region.outputs = [region.add("select", [keep, x, y], [x.type]).result for x, y in ((a, b), (i, j))]
    x = np.random.default_rng(0).integers(0, 4, (5, 13)).astype(np.float32)
    index = np.broadcast_to(np.arange(13, dtype=np.int32), x.shape)
    value, place = run("reduce_region", x, index, np.float32(-np.inf), np.int32(99), dims=(1,), regions=(region,))
    assert (value == x.max(1)).all() and (place == x.argmax(1)).all()


CONVOLUTIONS = [
    {"image": (2, 3, 8, 7), "kernel": (4, 3, 3, 2), "strides": (1, 1), "pads": ((1, 1), (0, 1))},
    {
        "image": (2, 3, 8, 7),
        "kernel": (4, 3, 3, 3),
        "strides": (2, 3),
        "pads": ((2, 0), (-1, 1)),
        "lhs": (2, 1),
        "rhs": (1, 2),
    },
    {"image": (2, 6, 5, 5), "kernel": (4, 3, 3, 3), "strides": (1, 1), "pads": ((1, 1), (1, 1)), "groups": 2},
    {"image": (6, 3, 5, 5), "kernel": (4, 3, 2, 2), "strides": (1, 2), "pads": ((0, 0), (0, 0)), "batches": 2},
    {"image": (1, 1, 1, 1), "kernel": (1, 1, 1, 1), "strides": (1, 1), "pads": ((0, 0), (0, 0))},
]


@pytest.mark.parametrize("case", CONVOLUTIONS)
def test_convolution_matches_xla(case: dict[str, Any]) -> None:
    lax = pytest.importorskip("jax.lax")
    image, kernel = normal(*case["image"], seed=1), normal(*case["kernel"], seed=2)
    lhs, rhs = case.get("lhs", (1, 1)), case.get("rhs", (1, 1))
    groups, batches = case.get("groups", 1), case.get("batches", 1)
    low, high = zip(*case["pads"], strict=True)
    expected = lax.conv_general_dilated(image, kernel, case["strides"], case["pads"], lhs, rhs,
                                        feature_group_count=groups, batch_group_count=batches, precision="highest")  # fmt: skip
    found = run("convolution", image, kernel, window_strides=case["strides"], low=low, high=high, lhs_dilation=lhs,
                rhs_dilation=rhs, window_reversal=(False, False), input_batch=0, input_feature=1, input_spatial=(2, 3),
                kernel_output_feature=0, kernel_input_feature=1, kernel_spatial=(2, 3), output_batch=0,
                output_feature=1, output_spatial=(2, 3), feature_group_count=groups, batch_group_count=batches)  # fmt: skip
    terms = int(np.prod(case["kernel"][1:]))
    scale = float(np.abs(image).max() * np.abs(kernel).max())
    assert np.abs(found - np.asarray(expected)).max() <= 2 * terms * (terms + 1) * 2.0**-24 * scale


def test_convolution_with_reversal_and_other_layout() -> None:
    image, kernel = normal(7, 2, 3), normal(3, 3, 5)
    found = run("convolution", image, kernel, window_strides=(1,), low=(1,), high=(1,), lhs_dilation=(1,),
                rhs_dilation=(1,), window_reversal=(True,), input_batch=1, input_feature=2, input_spatial=(0,),
                kernel_output_feature=2, kernel_input_feature=1, kernel_spatial=(0,), output_batch=2,
                output_feature=0, output_spatial=(1,), feature_group_count=1, batch_group_count=1)  # fmt: skip
    padded = np.pad(image, ((1, 1), (0, 0), (0, 0)))
    expected = sum(np.einsum("sbi,io->osb", padded[t : t + 7], kernel[2 - t]) for t in range(3))
    assert np.abs(found - expected).max() <= 2 * 9 * 10 * 2.0**-24 * np.abs(image).max() * np.abs(kernel).max()


# Windows, scatter, sort -------------------------------------------------------------------------------------------


WINDOWS = [
    {"window": (2, 3), "strides": (1, 2), "pads": ((0, 1), (1, 1)), "base": (1, 1), "dilation": (1, 1)},
    {"window": (2, 2), "strides": (2, 1), "pads": ((0, 0), (2, 0)), "base": (2, 1), "dilation": (1, 3)},
    {"window": (1, 6), "strides": (1, 1), "pads": ((0, 0), (5, 0)), "base": (1, 1), "dilation": (1, 1)},  # cumulative
]


@pytest.mark.parametrize("case", WINDOWS)
@pytest.mark.parametrize("ops", [("add",), ("maximum",), ("add", "maximum")])
def test_reduce_window(case: dict[str, Any], ops: tuple[str, ...]) -> None:
    x = np.random.default_rng(0).integers(-5, 6, (5, 6)).astype(np.float32)
    low, high = zip(*case["pads"], strict=True)
    init = np.float32(0 if ops[0] == "add" else -np.inf)
    body = {"add": np.add, "maximum": np.maximum}
    found = run("reduce_window", x, init, window_dimensions=case["window"], window_strides=case["strides"],
                base_dilations=case["base"], window_dilations=case["dilation"], low=low, high=high,
                regions=(scalar_region(*ops),))  # fmt: skip
    padded = run("pad", x, init, low=low, high=high, interior=tuple(b - 1 for b in case["base"]))
    for place in np.ndindex(*found.shape):
        total = None
        for offset in np.ndindex(*case["window"]):
            at = tuple(
                p * s + o * d for p, s, o, d in zip(place, case["strides"], offset, case["dilation"], strict=True)
            )
            if total is None:
                total = padded[at]
                continue
            b = padded[at]
            for op in ops:
                total = body[op](total, b)
        b = total
        total = init
        for op in ops:
            total = body[op](total, b)
        assert found[place] == total


def test_select_and_scatter_is_the_gradient_of_max_pooling() -> None:
    jax = pytest.importorskip("jax")
    x, source = normal(4, 6), normal(2, 4, seed=1)

    def pooled(a: Any) -> Any:
        return jax.lax.reduce_window(a, -np.inf, jax.lax.max, (2, 3), (2, 2), ((0, 0), (1, 2)))

    (expected,) = jax.vjp(pooled, x)[1](source)
    found = run("select_and_scatter", x, source, np.float32(0), window_dimensions=(2, 3), window_strides=(2, 2),
                low=(0, 1), high=(0, 2), regions=(compare_region("GE", "f32"), scalar_region("add")))  # fmt: skip
    assert np.abs(found - np.asarray(expected)).max() <= 4 * 2.0**-24 * np.abs(source).max()


ROWS = {"update_window_dims": (1,), "inserted_window_dims": (0,), "input_batching_dims": (), "scatter_indices_batching_dims": (),
            "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1}  # fmt: skip


def test_scatter_adds_replaces_and_drops_what_is_outside() -> None:
    x, update = np.zeros((4, 2), np.float32), np.arange(1, 11, dtype=np.float32).reshape(5, 2)
    index = np.int32([[1], [1], [9], [-1], [3]])
    added = run("scatter", x, index, update, regions=(scalar_region("add"),), **ROWS)
    assert added.tolist() == [[0, 0], [4, 6], [0, 0], [9, 10]]
    replaced = run("scatter", x, index, update, regions=(second_region(),), **ROWS)
    assert replaced.tolist() == [[0, 0], [3, 4], [0, 0], [9, 10]]
    clipped = run("scatter", x + 2, index, update, regions=(scalar_region("multiply", "maximum"),), **ROWS)
    assert clipped.tolist() == [[2, 2], [6, 16], [2, 2], [18, 20]]


def test_scatter_add_of_many_bf16_rounds_once() -> None:
    index = np.zeros((1000, 1), np.int32)
    found = run("scatter", np.zeros((1, 1), BF16), index, np.ones((1000, 1), BF16),
                regions=(scalar_region("add", dtype="bf16"),), **ROWS)  # fmt: skip
    assert found[0, 0] == 1000


@pytest.mark.parametrize("count", [0, 1, 2, 5, 13, 16])
def test_sort_is_stable_for_any_length(count: int) -> None:
    rng = np.random.default_rng(count)
    keys, payload = rng.integers(0, 4, (count, 3)).astype(np.int32), np.arange(count * 3).reshape(count, 3)
    a, b = run("sort", keys, payload, dim=0, is_stable=True, regions=(compare_region("LT", "i32", "i64"),))
    order = np.argsort(keys, 0, kind="stable")
    assert (a == np.take_along_axis(keys, order, 0)).all() and (b == np.take_along_axis(payload, order, 0)).all()
    down, _ = run("sort", keys, payload, dim=0, regions=(compare_region("GT", "i32", "i64"),))
    assert (down == np.sort(keys, 0)[::-1]).all()


def test_top_k() -> None:
    x = np.float32([[1, 5, np.nan, 5, -1], [0, -0.0, 3, 2, 2]])
    values, index = run("top_k", x, k=3)
    assert index.tolist() == [[2, 1, 3], [2, 3, 4]]
    assert np.isnan(values[0, 0]) and values[1].tolist() == [3, 2, 2]
    assert run("top_k", np.uint64([2**64 - 1, 0, 2**63]), k=2)[1].tolist() == [0, 2]


# Control flow and random bits -------------------------------------------------------------------------------------


def test_while_sees_values_from_outside() -> None:
    i32 = TensorType((), "i32")
    graph = Graph("main", [Value(i32), Value(i32)])
    limit, step = graph.inputs
    start = graph.add("constant", [], [i32], {"value": np.int32(0).reshape(())}).result
    condition, body = Graph("cond", [Value(i32)]), Graph("body", [Value(i32)])
    attrs = {"direction": "LT", "compare_type": "SIGNED"}
    condition.outputs = [condition.add("compare", [condition.inputs[0], limit], [TensorType((), "i1")], attrs).result]
    body.outputs = [body.add("add", [body.inputs[0], step], [i32]).result]
    node = graph.add("while", [start], [i32])
    node.regions = (condition, body)
    graph.outputs = [node.result]
    assert evaluate(graph, [np.int32(10), np.int32(3)])[0] == 12


def test_if_and_case_choose() -> None:
    branches = tuple(scalar_region(op) for op in ("add", "multiply", "subtract"))
    args = (np.float32(5), np.float32(2))
    assert run("if", np.bool_(True), *args, regions=branches[:2]) == 7
    assert run("if", np.bool_(False), *args, regions=branches[:2]) == 10
    assert [run("case", np.int32(i), *args, regions=branches) for i in (0, 1, 2, 7, -1)] == [7, 10, 3, 3, 3]


@pytest.mark.parametrize("shape", [(), (1,), (7,), (4, 3), (3, 4), (5, 3), (3, 3), (5, 2, 3)])
@pytest.mark.parametrize("dtype", ["ui8", "ui16", "ui32", "ui64"])
@pytest.mark.parametrize("algorithm", ["THREE_FRY", "PHILOX", "DEFAULT"])
def test_random_bits_match_xla(shape: tuple[int, ...], dtype: str, algorithm: str) -> None:
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        for counter in (0xFFFFFFFE, 2**64 - 2):
            key = np.array([0x123456789ABCDEF0, counter], np.uint64)
            state, bits = jax.lax.rng_bit_generator(
                key, shape, dtype=DTYPES[dtype], algorithm=getattr(jax.lax.RandomAlgorithm, f"RNG_{algorithm}")
            )
            types = [TensorType((2,), "ui64"), TensorType(shape, dtype)]
            found = run("rng_bit_generator", key, results=types, algorithm=algorithm)
            assert (found[1] == np.asarray(bits)).all() and (found[0] == np.asarray(state)).all()


def test_unknown_ops_are_refused() -> None:
    with pytest.raises(ProgramError, match="'custom_call' cannot be evaluated"):
        evaluate_node(Node("custom_call", [], []), [])
