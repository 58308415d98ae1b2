"""Ops that need other rows of a split dim than a device has: every start, stride and size against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from meshgen.errors import ShardingError
from meshgen.ir.evaluate import evaluate
from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.spec import P
from tests.sharding.local_programs import Program, whole_numbers

DEVICES = [2, 3, 8]  # 8: tiles of one or two rows, so that windows reach over several devices


def _matches(p: Program, args: list[Any], output: Value) -> None:
    """All ranks together make what the program makes on one device."""
    p.graph.outputs = [output]
    assert_array_equal(p.run(args, output)[0], evaluate(p.graph, args)[0])


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize(
    "start, limit, stride", [(0, 5, 1), (4, 13, 1), (12, 13, 1), (0, 13, 2), (1, 12, 3), (3, 3, 1)]
)
def test_slice(devices: int, start: int, limit: int, stride: int) -> None:
    p = Program(x=devices)
    rows = -(-(limit - start) // stride)
    attrs = {"start": (start, 1), "limit": (limit, 2), "stride": (stride, 1)}
    cut = p.add("slice", [p.input("f32[13,3]", P("x"))], f"f32[{rows},1]", P("x"), **attrs)
    _matches(p, [whole_numbers("f32[13,3]")], cut)


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("low, high", [(1, 0), (0, 4), (9, 9), (-3, 2), (2, -5), (-6, -6)])
def test_pad(devices: int, low: int, high: int) -> None:
    p = Program(x=devices)
    a, fill = p.input("i32[13,2]", P("x")), p.input("i32[]")
    attrs = {"low": (low, 0), "high": (high, 0), "interior": (0, 0)}
    padded = p.add("pad", [a, fill], f"i32[{13 + low + high},2]", P("x"), **attrs)
    _matches(p, [whole_numbers("i32[13,2]"), np.int32(77)], padded)


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("sizes", [(5, 8), (1, 12), (13, 1), (2, 2, 9), (7,), (0, 5)])
def test_concatenate(devices: int, sizes: tuple[int, ...]) -> None:
    p = Program(x=devices, y=1)
    parts = [p.input(f"f32[2,{n}]", P("y", "x")) for n in sizes]
    joined = p.add("concatenate", parts, f"f32[2,{sum(sizes)}]", P("y", "x"), dim=1)
    _matches(p, [whole_numbers(f"f32[2,{n}]", i) for i, n in enumerate(sizes)], joined)


@pytest.mark.parametrize("devices", DEVICES)
def test_roll_by_slices_of_one_value(devices: int) -> None:
    p = Program(x=devices)
    a = p.input("f32[13]", P("x"))
    head = p.add("slice", [a], "f32[10]", P("x"), start=(0,), limit=(10,), stride=(1,))
    tail = p.add("slice", [a], "f32[3]", P("x"), start=(10,), limit=(13,), stride=(1,))
    _matches(p, [whole_numbers("f32[13]")], p.add("concatenate", [tail, head], "f32[13]", P("x"), dim=0))


WINDOWS = [(3, 1, 1, 1, 1), (2, 2, 0, 0, 1), (3, 2, 0, 3, 1), (2, 1, 2, 2, 4), (1, 3, 0, 0, 1), (5, 1, 4, 4, 2)]


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("width, stride, low, high, dilation", WINDOWS)
def test_reduce_window(devices: int, width: int, stride: int, low: int, high: int, dilation: int) -> None:
    p = Program(x=devices)
    a, init = p.input("f32[13]", P("x")), p.input("f32[]")
    steps = (13 + low + high - (width - 1) * dilation - 1) // stride + 1
    attrs = {
        "window_dimensions": (width,), "window_strides": (stride,), "base_dilations": (1,),
        "window_dilations": (dilation,), "low": (low,), "high": (high,),
    }  # fmt: skip
    pooled = p.add("reduce_window", [a, init], f"f32[{steps}]", P("x"), **attrs)
    scalar = TensorType((), "f32")
    body = Graph("body", [Value(scalar), Value(scalar)])
    body.outputs = [body.add("maximum", body.inputs, [scalar]).result]
    p.graph.nodes[-1].regions = (body,)
    _matches(p, [whole_numbers("f32[13]"), np.float32(-2.5)], pooled)


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("width, stride, low, high, dilation", WINDOWS)
def test_convolution_over_split_space(
    devices: int, width: int, stride: int, low: int, high: int, dilation: int
) -> None:
    p = Program(x=devices, y=2)
    image, kernel = p.input("f32[2,3,13]", P(None, "y", "x")), p.input(f"f32[4,3,{width}]", P(None, "y"))
    steps = (13 + low + high - (width - 1) * dilation - 1) // stride + 1
    attrs = {
        "input_batch": 0, "input_feature": 1, "input_spatial": (2,), "kernel_output_feature": 0,
        "kernel_input_feature": 1, "kernel_spatial": (2,), "output_batch": 0, "output_feature": 1,
        "output_spatial": (2,), "window_strides": (stride,), "low": (low,), "high": (high,), "lhs_dilation": (1,),
        "rhs_dilation": (dilation,), "window_reversal": (False,), "feature_group_count": 1, "batch_group_count": 1,
        "precision": (),
    }  # fmt: skip
    result = p.add("convolution", [image, kernel], f"f32[2,4,{steps}]", P(None, None, "x", partial="y"), **attrs)
    _matches(p, [whole_numbers("f32[2,3,13]"), whole_numbers(f"f32[4,3,{width}]", 1)], result)


def test_padding_between_rows_needs_the_dim_whole() -> None:
    p = Program(x=2)
    attrs = {"low": (0,), "high": (0,), "interior": (1,)}
    spread = p.add("pad", [p.input("f32[4]", P("x")), p.input("f32[]")], "f32[7]", P("x"), **attrs)
    with pytest.raises(ShardingError, match="must be whole"):
        p.local(spread)


def test_a_partial_value_is_padded_with_a_partial_fill() -> None:
    p = Program(x=2, y=3)
    a, fill = p.input("f32[7]", P("y", partial="x")), p.input("f32[]", P(partial="x"))
    padded = p.add("pad", [a, fill], "f32[12]", P("y", partial="x"), low=(2,), high=(3,), interior=(0,))
    _matches(p, [whole_numbers("f32[7]"), np.float32(9)], padded)
