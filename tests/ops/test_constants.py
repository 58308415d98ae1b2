"""Tests of constant folding and of splat detection."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from meshgen.ir.builder import Builder
from meshgen.ir.graph import DTYPES, Graph, TensorType, Value
from meshgen.ir.splats import uniform_element
from meshgen.ops.constants import constant_of, splat_of


def number_of(builder: Builder, value: Value) -> Any:
    return splat_of(value, builder.graph.index.producers.get)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "i8", "c64", "i1"])
def test_splat_of_sees_through_index_maps_and_conversions(dtype: str) -> None:
    builder = Builder(Graph(""))
    value = builder.broadcast_scalar(1, TensorType((3, 4), dtype))
    transposed = builder.transpose(builder.rows(value, 0, 1, 3), (1, 0))
    number = number_of(builder, builder.reshape(transposed, (8,)))
    assert number == 1 and number.dtype == DTYPES[dtype] and number.shape == ()


def test_splat_of_folds_elementwise_functions() -> None:
    builder = Builder(Graph(""))
    rounded = builder.convert(builder.broadcast_scalar(1 + 2**-10, TensorType((5,), "f32")), "bf16")
    assert number_of(builder, rounded) == 1
    assert number_of(builder, builder.elementwise("negate", builder.convert(rounded, "f32"))) == -1


def test_splat_of_folds_scalar_with_several_operands() -> None:
    builder, scalar = Builder(Graph("")), TensorType((), "f32")
    quotient = builder.elementwise("divide", builder.splat(1, scalar), builder.splat(8, scalar))
    assert number_of(builder, builder.spread(quotient, (64, 64))) == 0.125


def test_splat_of_is_none_for_non_uniform_values() -> None:
    argument = Value(TensorType((2,), "f32"))
    builder = Builder(Graph("", [argument]))
    zero = builder.splat(0, TensorType((), "f32"))
    ones = builder.broadcast_scalar(1, TensorType((2,), "f32"))
    iota = builder.emit("iota", [], TensorType((2,), "i32"), dim=0)
    mixed = builder.elementwise("add", ones, argument)
    for value in (builder.pad(ones, zero, (1,), (0,)), iota, argument, mixed):
        assert number_of(builder, value) is None


def test_splat_of_accepts_unknown_sizes() -> None:
    builder = Builder(Graph(""))
    number = builder.splat(3, TensorType((), "i32"))
    assert number_of(builder, builder.spread(number, (None, 4))) == 3
    iota = builder.emit("iota", [], TensorType((None,), "i32"), dim=0)
    assert number_of(builder, iota) is None


def test_constant_of_respects_its_limit_and_extends_known() -> None:
    argument = Value(TensorType((), "i32"))
    builder = Builder(Graph("", [argument]))
    iota = builder.emit("iota", [], TensorType((20,), "i32"), dim=0)
    shifted = builder.elementwise("add", iota, builder.splat(2, iota.type))
    producer = builder.graph.index.producers.get
    assert constant_of(shifted, producer) is None
    constants = dict[Value, Any]()
    array = constant_of(shifted, producer, most_elements=20, known=constants)
    assert array is not None and (array == np.arange(2, 22)).all() and iota in constants
    sum_of = builder.elementwise("add", argument, builder.splat(2, argument.type))
    producer = builder.graph.index.producers.get
    assert constant_of(sum_of, producer) is None
    assert constant_of(sum_of, producer, known={argument: np.array([5, 7], np.int32)}) is not None


@pytest.mark.parametrize(("array", "element"), [
    (np.full((3, 2), 7.0, np.float32), 7.0), (np.broadcast_to(np.float32(2), (1 << 40,)), 2.0), (np.array(5), 5),
    (np.array([0.0, -0.0]), None), (np.zeros((0, 4)), None), (np.array([1, 2, 1]), None), (np.full((4, 4), 1 + 2j)[::2], 1 + 2j),
])  # fmt: skip
def test_uniform_element_compares_bits(array: Any, element: Any) -> None:
    uniform = uniform_element(array)
    assert (uniform is None) == (element is None)
    assert uniform is None or (uniform == element and uniform.shape == () and uniform.dtype == array.dtype)


def test_uniform_element_of_nan_is_nan() -> None:
    uniform = uniform_element(np.full(3, math.nan))
    assert uniform is not None and math.isnan(float(uniform))
