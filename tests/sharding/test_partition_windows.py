"""Partition of ops that need rows of other tiles: every start, stride and size compared with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.sharding.analyze import analyze
from meshgen.spec import P, Sharding
from tests.sharding.local_programs import Program, assert_same_as_one_device, whole_numbers

DEVICES = [2, 3, 8]  # device counts; on 8 devices, tiles have one or two rows, so windows span several devices


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize(
    "start, limit, stride", [(0, 5, 1), (4, 13, 1), (12, 13, 1), (0, 13, 2), (1, 12, 3), (3, 3, 1)]
)
def test_slice_of_sharded_dim_is_correct(devices: int, start: int, limit: int, stride: int) -> None:
    p = Program(x=devices)
    rows = -(-(limit - start) // stride)
    attrs = {"start": (start, 1), "limit": (limit, 2), "stride": (stride, 1)}
    cut = p.add("slice", [p.input("f32[13,3]", P("x"))], f"f32[{rows},1]", P("x"), **attrs)
    assert_same_as_one_device(p, [whole_numbers("f32[13,3]")], cut)


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("low, high", [(1, 0), (0, 4), (9, 9), (-3, 2), (2, -5), (-6, -6)])
@pytest.mark.parametrize("interior", [0, 1, 2, 4])
def test_pad_of_sharded_dim_is_correct(devices: int, low: int, high: int, interior: int) -> None:
    p = Program(x=devices)
    a, fill = p.input("i32[13,2]", P("x")), p.input("i32[]")
    attrs = {"low": (low, 0), "high": (high, 0), "interior": (interior, 0)}
    padded = p.add("pad", [a, fill], f"i32[{13 + 12 * interior + low + high},2]", P("x"), **attrs)
    assert_same_as_one_device(p, [whole_numbers("i32[13,2]"), np.int32(77)], padded)


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("sizes", [(5, 8), (1, 12), (13, 1), (2, 2, 9), (7,), (0, 5)])
def test_concatenate_along_sharded_dim_is_correct(devices: int, sizes: tuple[int, ...]) -> None:
    p = Program(x=devices, y=1)
    parts = [p.input(f"f32[2,{n}]", P("y", "x")) for n in sizes]
    joined = p.add("concatenate", parts, f"f32[2,{sum(sizes)}]", P("y", "x"), dim=1)
    assert_same_as_one_device(p, [whole_numbers(f"f32[2,{n}]", i) for i, n in enumerate(sizes)], joined)


@pytest.mark.parametrize("devices", DEVICES)
def test_roll_of_sharded_dim_is_correct(devices: int) -> None:
    p = Program(x=devices)
    a = p.input("f32[13]", P("x"))
    head = p.add("slice", [a], "f32[10]", P("x"), start=(0,), limit=(10,), stride=(1,))
    tail = p.add("slice", [a], "f32[3]", P("x"), start=(10,), limit=(13,), stride=(1,))
    assert_same_as_one_device(
        p, [whole_numbers("f32[13]")], p.add("concatenate", [tail, head], "f32[13]", P("x"), dim=0)
    )


WINDOWS = [(3, 1, 1, 1, 1), (2, 2, 0, 0, 1), (3, 2, 0, 3, 1), (2, 1, 2, 2, 4), (1, 3, 0, 0, 1), (5, 1, 4, 4, 2),
           (13, 2, 12, 0, 1), (13, 1, 12, 0, 2), (13, 1, 0, 12, 1)]  # fmt: skip


def _steps(width: int, stride: int, low: int, high: int, dilation: int, base_dilation: int) -> int:
    """Return the number of windows over a dim of 13 rows that are spread by `base_dilation`."""
    return (12 * base_dilation + 1 + low + high - (width - 1) * dilation - 1) // stride + 1


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("width, stride, low, high, dilation", WINDOWS)
@pytest.mark.parametrize("apart", [1, 2, 3])
def test_reduce_window_over_sharded_dim_is_correct(
    devices: int, width: int, stride: int, low: int, high: int, dilation: int, apart: int
) -> None:
    p = Program(x=devices)
    a, init = p.input("f32[13]", P("x")), p.input("f32[]")
    steps = _steps(width, stride, low, high, dilation, apart)
    attrs = {
        "window_dimensions": (width,), "window_strides": (stride,), "base_dilations": (apart,),
        "window_dilations": (dilation,), "low": (low,), "high": (high,),
    }  # fmt: skip
    pooled = p.add("reduce_window", [a, init], f"f32[{steps}]", P("x"), **attrs)
    scalar = TensorType((), "f32")
    body = Graph("body", [Value(scalar), Value(scalar)])
    body.outputs = [body.add("maximum", body.inputs, [scalar]).result]
    p.graph.nodes[-1].regions = (body,)
    assert_same_as_one_device(p, [whole_numbers("f32[13]"), np.float32(-2.5)], pooled)


def _convolution(p: Program, image: Value, kernel: Value, result: str, spec: Sharding, **window: int) -> Value:
    """Convolve over one spatial dim, the last of each operand; features are dim 1 of the image and of the result."""
    settings = {
        "stride": 1,
        "low": 0,
        "high": 0,
        "apart": 1,
        "dilation": 1,
        "features": 1,
        "batches": 1,
        "turned": 0,
        **window,
    }
    attrs = {
        "input_batch": 0, "input_feature": 1, "input_spatial": (2,), "kernel_output_feature": 0,
        "kernel_input_feature": 1, "kernel_spatial": (2,), "output_batch": 0, "output_feature": 1,
        "output_spatial": (2,), "window_strides": (settings["stride"],), "low": (settings["low"],), "high": (settings["high"],),
        "lhs_dilation": (settings["apart"],), "rhs_dilation": (settings["dilation"],), "window_reversal": (bool(settings["turned"]),),
        "feature_group_count": settings["features"], "batch_group_count": settings["batches"], "precision": (),
    }  # fmt: skip
    return p.add("convolution", [image, kernel], result, spec, **attrs)


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("width, stride, low, high, dilation", WINDOWS)
@pytest.mark.parametrize("apart", [1, 2, 3])
def test_convolution_over_sharded_spatial_dim_is_correct(
    devices: int, width: int, stride: int, low: int, high: int, dilation: int, apart: int
) -> None:
    p = Program(x=devices, y=2)
    image, kernel = p.input("f32[2,3,13]", P(None, "y", "x")), p.input(f"f32[4,3,{width}]", P(None, "y"))
    kind = f"f32[2,4,{_steps(width, stride, low, high, dilation, apart)}]"
    window = {"stride": stride, "low": low, "high": high, "dilation": dilation, "apart": apart, "turned": width % 2}
    result = _convolution(p, image, kernel, kind, P(None, None, "x", partial="y"), **window)
    assert_same_as_one_device(p, [whole_numbers("f32[2,3,13]"), whole_numbers(f"f32[4,3,{width}]", 1)], result)


# cases in which the kernel is longer than the result
GRADIENTS = [(*w, apart) for w in WINDOWS for apart in (1, 2) if _steps(*w, apart) > w[0]]


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("width, stride, low, high, dilation, apart", GRADIENTS)
def test_kernel_gradient_convolution_is_partial_sum(
    devices: int, width: int, stride: int, low: int, high: int, dilation: int, apart: int
) -> None:
    """The gradient of a kernel is a convolution with the result's gradient, in which strides and dilations are swapped."""
    p = Program(x=devices, y=2)
    rows = _steps(width, stride, low, high, dilation, apart)
    image, kernel = p.input("f32[2,3,13]", P(None, None, "x")), p.input(f"f32[4,3,{rows}]", P("y", None, "x"))
    unused = 12 * apart + 1 + low + high - (rows - 1) * stride - (width - 1) * dilation - 1
    window = {"stride": dilation, "low": low, "high": high - unused, "dilation": stride, "apart": apart}
    result = _convolution(p, image, kernel, f"f32[2,4,{width}]", P(None, "y", partial="x"), **window)
    assert_same_as_one_device(p, [whole_numbers("f32[2,3,13]"), whole_numbers(f"f32[4,3,{rows}]", 1)], result)


GROUPS = [  # image batch, image features, kernel outputs, kernel inputs, groups
    (2, 6, 6, 1, {"features": 6}),
    (2, 8, 12, 2, {"features": 4}),
    (8, 3, 8, 3, {"batches": 4}),
    (6, 2, 6, 2, {"batches": 6}),
]


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("batch, inputs, outputs, kernel_inputs, groups", GROUPS)
def test_sharded_convolution_groups_move_no_bytes(
    devices: int, batch: int, inputs: int, outputs: int, kernel_inputs: int, groups: dict[str, int]
) -> None:
    p = Program(x=devices)
    by_batch = "batches" in groups
    image = p.input(f"f32[{batch},{inputs},5]", P("x") if by_batch else P(None, "x"))
    kernel = p.input(f"f32[{outputs},{kernel_inputs},3]", P("x"))
    rows = batch // groups.get("batches", 1)
    result = _convolution(p, image, kernel, f"f32[{rows},{outputs},3]", P(None, "x"), **groups)
    assert analyze(p.local(result)).ring_bytes == 0
    assert_same_as_one_device(
        p, [whole_numbers(f"f32[{batch},{inputs},5]"), whole_numbers(f"f32[{outputs},{kernel_inputs},3]", 1)], result
    )


def _pool_gradient(p: Program, x: Value, source: Value, init: Value, **window: tuple[int, ...]) -> Value:
    gradient = p.add("select_and_scatter", [x, source, init], str(x.type), x.sharding, **window)
    scalar, truth = TensorType((), "f32"), TensorType((), "i1")
    select, add = (Graph(name, [Value(scalar), Value(scalar)]) for name in ("select", "add"))
    compare_attrs = {"direction": "GE", "compare_type": "FLOAT"}
    select.outputs = [select.add("compare", select.inputs, [truth], compare_attrs).result]
    add.outputs = [add.add("add", add.inputs, [scalar]).result]
    p.graph.nodes[-1].regions = (select, add)
    return gradient


@pytest.mark.parametrize("devices", [*DEVICES, 4])
@pytest.mark.parametrize(
    "size, stride, low, high", [(2, 2, 0, 0), (3, 2, 1, 1), (2, 3, 0, 0), (3, 1, 2, 0), (5, 2, 4, 4)]
)
def test_max_pooling_gradient_over_sharded_dim_is_correct(
    devices: int, size: int, stride: int, low: int, high: int
) -> None:
    """The values are few, so that ties occur. They include infinities, which must differ from padding."""
    p = Program(x=devices, y=2)
    steps = (13 + low + high - size) // stride + 1
    x, source = p.input("f32[3,13,4]", P("y", "x")), p.input(f"f32[3,{steps},4]", P("y", "x"))
    window = {
        "window_dimensions": (1, size, 1),
        "window_strides": (1, stride, 1),
        "low": (0, low, 0),
        "high": (0, high, 0),
    }
    values = np.random.default_rng(size).choice([-np.inf, 0, 1, np.nan], (3, 13, 4), p=[0.4, 0.3, 0.2, 0.1])
    args = [values.astype(np.float32), whole_numbers(f"f32[3,{steps},4]", 1), np.float32(7)]
    assert_same_as_one_device(p, args, _pool_gradient(p, x, source, p.input("f32[]"), **window))


def test_max_pooling_gradient_over_two_sharded_dims_is_correct() -> None:
    p = Program(x=2, y=3)
    x, source = p.input("f32[2,9,10]", P(None, "x", "y")), p.input("f32[2,5,4]", P(None, "x", "y"))
    window = {"window_dimensions": (1, 3, 4), "window_strides": (1, 2, 2), "low": (0, 1, 0), "high": (0, 1, 0)}
    args = [whole_numbers("f32[2,9,10]"), whole_numbers("f32[2,5,4]", 1), np.float32(0)]
    assert_same_as_one_device(p, args, _pool_gradient(p, x, source, p.input("f32[]"), **window))


def test_non_overlapping_pooling_gradient_has_no_collectives() -> None:
    p = Program(x=4)
    x, source = p.input("f32[16,3]", P("x")), p.input("f32[8,3]", P("x"))
    window = {"window_dimensions": (2, 1), "window_strides": (2, 1), "low": (0, 0), "high": (0, 0)}
    assert not analyze(p.local(_pool_gradient(p, x, source, p.input("f32[]"), **window))).collectives


def test_dilated_convolution_moves_only_needed_rows() -> None:
    """Check a kernel dilated by 2: a tile of 8 result rows reads 4 local image rows and one row of the next tile."""
    p = Program(x=4)
    image, kernel = p.input("f32[1,2,16]", P(None, None, "x")), p.input("f32[3,2,3]")
    spread = _convolution(p, image, kernel, "f32[1,3,32]", P(None, None, "x"), apart=2, low=1, high=2)
    assert analyze(p.local(spread)).ring_bytes == 1 * 2 * 4


def test_pad_of_partial_value_with_partial_fill_is_correct() -> None:
    p = Program(x=2, y=3)
    a, fill = p.input("f32[7]", P("y", partial="x")), p.input("f32[]", P(partial="x"))
    padded = p.add("pad", [a, fill], "f32[12]", P("y", partial="x"), low=(2,), high=(3,), interior=(0,))
    assert_same_as_one_device(p, [whole_numbers("f32[7]"), np.float32(9)], padded)
