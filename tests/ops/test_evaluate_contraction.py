"""Tests of the reference evaluator for dots, reductions and convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.ir.graph import DTYPES, Graph, TensorType, Value
from tests.ops.one_op import BF16, normal, run


def test_dot_general_supports_any_batch_and_contracted_dims() -> None:
    left, right = normal(3, 2, 5, 4, seed=1), normal(4, 7, 3, 2, 6, seed=2)
    result = run("dot_general", left, right, lhs_batch=(1, 0), rhs_batch=(3, 2), lhs_contract=(3,), rhs_contract=(0,))
    expected = np.einsum("baik,kjbal->abijl", left, right)
    bound = 2 * (4 + 1) * 2.0**-24 * np.einsum("baik,kjbal->abijl", np.abs(left), np.abs(right))
    assert result.shape == (2, 3, 5, 7, 6) and (np.abs(result - expected) <= bound).all()
    assert (
        run(
            "dot_general", left[0, 0], left[0, 0], lhs_batch=(), rhs_batch=(), lhs_contract=(0, 1), rhs_contract=(0, 1)
        ).shape
        == ()
    )


def test_ragged_dot_multiplies_rows_by_matrix_of_group() -> None:
    """A row in two groups is the sum of both results, a row in no group is zero, and group ranges are clamped."""
    rows, matrices = normal(7, 4, seed=1), normal(3, 4, 5, seed=2)
    starts, ends = np.int32([-2, 1, 6]), np.int32([2, 4, 9])
    expected = np.zeros((7, 5))
    for group, (start, end) in enumerate([(0, 2), (1, 4), (6, 7)]):
        expected[start:end] += rows[start:end] @ matrices[group]
    kind = [TensorType((7, 5), "f32")]
    result = run("ragged_dot", rows, matrices, starts, ends, contracts=False, results=kind)
    np.testing.assert_allclose(result, expected, atol=1e-5)
    assert not result[4:6].any()


def test_ragged_dot_contracts_rows_of_each_group() -> None:
    left, right = normal(7, 4, seed=1), normal(7, 5, seed=2)
    kind = [TensorType((2, 4, 5), "f32")]
    result = run("ragged_dot", left, right, np.int32([5, 3]), np.int32([9, 1]), contracts=True, results=kind)
    np.testing.assert_allclose(result[0], left[5:].T @ right[5:], atol=1e-5)
    assert not result[1].any()


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
def test_reduce_computes_each_kind(kind: str, dtype: str, expected: Any) -> None:
    x = np.array([0, 1, 2, 3]).astype(DTYPES[dtype])
    init = {"add": 4 if dtype == "f32" else 0, "minimum": 9, "multiply": 1, "and": True}.get(kind, 0)
    assert run("reduce", x, np.array(init).astype(DTYPES[dtype]), dims=(0,), kind=kind) == expected


def test_reduce_handles_empty_dims_nan_and_bf16() -> None:
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
    value, position = run("reduce_region", x, index, np.float32(-np.inf), np.int32(99), dims=(1,), regions=(region,))
    assert (value == x.max(1)).all() and (position == x.argmax(1)).all()
    for dim, shape in ((1, (0,)), (0, (13,))):
        begin = np.float32(-np.inf), np.int32(99)
        value, position = run("reduce_region", x[:0], index[:0], *begin, dims=(dim,), regions=(region,))
        assert value.shape == position.shape == shape and (value == -np.inf).all() and (position == 99).all()


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
    result = run("convolution", image, kernel, window_strides=case["strides"], low=low, high=high, lhs_dilation=lhs,
                rhs_dilation=rhs, window_reversal=(False, False), input_batch=0, input_feature=1, input_spatial=(2, 3),
                kernel_output_feature=0, kernel_input_feature=1, kernel_spatial=(2, 3), output_batch=0,
                output_feature=1, output_spatial=(2, 3), feature_group_count=groups, batch_group_count=batches)  # fmt: skip
    terms = int(np.prod(case["kernel"][1:]))
    scale = float(np.abs(image).max() * np.abs(kernel).max())
    assert np.abs(result - np.asarray(expected)).max() <= 2 * terms * (terms + 1) * 2.0**-24 * scale


def test_convolution_supports_reversal_and_other_layouts() -> None:
    image, kernel = normal(7, 2, 3), normal(3, 3, 5)
    result = run("convolution", image, kernel, window_strides=(1,), low=(1,), high=(1,), lhs_dilation=(1,),
                rhs_dilation=(1,), window_reversal=(True,), input_batch=1, input_feature=2, input_spatial=(0,),
                kernel_output_feature=2, kernel_input_feature=1, kernel_spatial=(0,), output_batch=2,
                output_feature=0, output_spatial=(1,), feature_group_count=1, batch_group_count=1)  # fmt: skip
    padded = np.pad(image, ((1, 1), (0, 0), (0, 0)))
    expected = sum(np.einsum("sbi,io->osb", padded[t : t + 7], kernel[2 - t]) for t in range(3))
    assert np.abs(result - expected).max() <= 2 * 9 * 10 * 2.0**-24 * np.abs(image).max() * np.abs(kernel).max()


def test_dot_of_mixed_integers_is_exact() -> None:
    """The accumulator exceeds the 53-bit mantissa of f64: it sums 2^15 terms of up to 2^38."""
    left, right = np.full((1, 1 << 15), 127, np.int8), np.full((1 << 15, 1), (1 << 31) - 1, np.int32)
    contract = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}
    result = [TensorType((1, 1), "i64")]
    assert run("dot_general", left, right, results=result, **contract).item() == 127 * ((1 << 31) - 1) << 15
