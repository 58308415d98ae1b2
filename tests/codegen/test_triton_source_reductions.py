"""Tests of the Triton source of reductions."""

from __future__ import annotations

import numpy as np
import pytest
from bodies import Body, check, launch

from meshgen.codegen.triton_source import kernel_source
from meshgen.ir.graph import Graph, Value
from meshgen.mesh import make_mesh


def softmax(shape: tuple[int, ...], dtype: str, dim: int) -> Graph:
    b = Body(f"{dtype}[{','.join(map(str, shape))}]")
    (x,) = b.inputs
    row_dims = [d for d in range(len(shape)) if d != dim]
    shifted = b.op("subtract", x, b.wide(b.reduce("maximum", x, dim), x, row_dims))
    e = b.op("exponential", shifted)
    wide = b.op("convert", e, to=f"{'f64' if dtype == 'f64' else 'f32'}[{','.join(map(str, shape))}]")
    total = b.wide(b.reduce("add", wide, dim), wide, row_dims)
    return b.done(b.op("convert", b.op("divide", wide, total), to=str(x.type)))


def layer_norm(rows: str, size: int, dtype: str) -> Graph:
    b = Body(f"{dtype}[{rows},{size}]", f"{dtype}[{size}]", f"{dtype}[{size}]")
    x, gain, bias = b.inputs
    last = x.type.rank - 1
    row_dims, wide = tuple(range(last)), f"f32[{rows},{size}]"
    column_type = f"f32[{rows},1]"
    xf = b.op("convert", x, to=wide)

    def mean(v: Value) -> Value:
        column = b.op("broadcast_in_dim", b.reduce("add", v, last), to=column_type, dims=row_dims)
        return b.op("divide", column, b.splat(float(size), column))

    centered = b.op("subtract", xf, b.wide(mean(xf), xf, range(last + 1)))
    variance = mean(b.op("multiply", centered, centered))
    scale = b.op("rsqrt", b.op("add", variance, b.splat(1e-5, variance)))
    y = b.op("multiply", centered, b.wide(scale, xf, range(last + 1)))
    y = b.op("multiply", b.op("convert", y, to=str(x.type)), b.wide(gain, x, (last,)))
    return b.done(b.op("add", y, b.wide(bias, x, (last,))))


@pytest.mark.parametrize("dtype", ["bf16", "f32", "f16", "f64"])
@pytest.mark.parametrize("shape, dim", [((3, 5, 37), 2), ((2, 64), 1), ((1, 1), 1), ((33, 6), 0), ((2, 7, 3), 1)])
def test_softmax_kernel_matches_reference(shape: tuple[int, ...], dim: int, dtype: str) -> None:
    check(softmax(shape, dtype, dim), length=shape[dim])


@pytest.mark.parametrize("dtype", ["bf16", "f32"])
@pytest.mark.parametrize("rows, size", [("2,5", 48), ("7", 33), ("1", 1), ("3,1", 128)])
def test_layer_norm_kernel_matches_reference(rows: str, size: int, dtype: str) -> None:
    source = check(layer_norm(rows, size, dtype), length=size)
    assert source.text.count("tl.load(x0_ptr") == 1, "the row is read once"


def test_row_larger_than_registers_is_reduced_in_chunks() -> None:
    source = check(softmax((2, 20001), "f32", 1), length=20001)
    assert source.text.count("for start in") == 3  # one loop each for the maximum, the sum and the result


def test_sum_and_sum_of_squares_share_one_pass() -> None:
    b = Body("f32[6,40]")
    (x,) = b.inputs
    body = b.done(b.reduce("add", b.op("multiply", x, x), 1), b.reduce("add", x, 1))
    source = check(body, length=40)
    assert source.text.count("tl.load(") == 1


@pytest.mark.parametrize(
    "shape, dims",
    [((300, 70), (0,)), ((5, 7, 9), (0, 1)), ((5, 7, 9), (0, 2)), ((4, 9), (0, 1)), ((130, 1), (0,)), ((3, 4), ())],
)
@pytest.mark.parametrize("kind", ["add", "maximum"])
def test_reductions_over_any_dims_match_reference(shape: tuple[int, ...], dims: tuple[int, ...], kind: str) -> None:
    b = Body(f"f32[{','.join(map(str, shape))}]")
    check(b.done(b.reduce(kind, b.inputs[0], *dims)), length=int(np.prod([shape[d] for d in dims])))


@pytest.mark.parametrize(
    "kind, dtype",
    [
        ("add", "i32"),
        ("maximum", "i32"),
        ("minimum", "i32"),
        ("multiply", "f32"),
        ("and", "i1"),
        ("or", "i1"),
        ("and", "i32"),
        ("or", "i32"),
        ("xor", "i32"),
        ("minimum", "bf16"),
        ("add", "bf16"),
    ],
)
def test_reductions_of_every_kind_match_reference(kind: str, dtype: str) -> None:
    b = Body(f"{dtype}[5,11]")
    check(b.done(b.reduce(kind, b.inputs[0], 1)), length=11)


def test_reduction_includes_its_initial_value() -> None:
    b = Body("f32[5,11]", "f32[]")
    x, start = b.inputs
    check(b.done(b.op("reduce", x, start, to="f32[5]", dims=(1,), kind="add")), length=12)


def test_maximum_reduction_keeps_nan() -> None:
    b = Body("f32[2,5]")
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    x[0, 1] = np.nan
    body = b.done(b.reduce("maximum", b.inputs[0], 1))
    maxima = launch(kernel_source("m", body, make_mesh({"x": 1})), body, [x])[0]
    assert np.isnan(maxima[0]) and maxima[1] == 9
