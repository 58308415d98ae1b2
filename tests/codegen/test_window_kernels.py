"""Tests of window kernels: pooling of any shape, cumulative reductions, and the gradient of max pooling."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from meshgen.codegen.passes.split_reduction import split_reduction
from meshgen.ir.graph import DTYPES, Graph, Node, TensorType, Value
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.evaluate.window import cumulative_dim
from meshgen.ops.types.inference import infer_types
from tests.codegen.bodies import Body, check, random_args
from tests.codegen.passes.after import after


def region_of(kind: str, dtype: str) -> Graph:
    region = Graph("", [Value(TensorType((), dtype)) for _ in range(2)])
    to_bits = kind in ("GE", "GT")
    op, attrs = ("compare", {"direction": kind, "compare_type": ""}) if to_bits else (kind, {})
    region.outputs = [region.add(op, region.inputs, [TensorType((), "i1" if to_bits else dtype)], attrs).result]
    return region


def window(
    type_: str, kind: str, sizes: tuple[int, ...], *, init: Any = None, **window_attrs: tuple[int, ...]
) -> Graph:
    b = Body(type_, name="windows")
    (x,) = b.inputs
    rank, dtype = x.type.rank, x.type.dtype
    attrs: dict[str, Any] = {"window_dimensions": sizes, "low": (0,) * rank, "high": (0,) * rank}
    for name in ("window_strides", "base_dilations", "window_dilations"):
        attrs[name] = (1,) * rank
    attrs |= window_attrs
    start = b.constant(neutral(kind, dtype) if init is None else init, dtype)
    region = region_of(kind, dtype)
    types = infer_types("reduce_window", attrs, [x.type, start.type], (region,))
    assert types is not None
    result = Value(types[0])
    b.graph.nodes.append(Node("reduce_window", [x, start], [result], attrs, regions=(region,)))
    return b.done(result)


def cumulative(type_: str, kind: str, dim: int, *, reverse: bool = False, init: Any = None) -> Graph:
    sizes = Body(type_).inputs[0].type.sizes
    window_sizes = tuple(n if d == dim else 1 for d, n in enumerate(sizes))
    pads, none = tuple(n - 1 for n in window_sizes), (0,) * len(sizes)
    return window(type_, kind, window_sizes, init=init, low=none if reverse else pads, high=pads if reverse else none)


WINDOWS: dict[str, Graph] = {
    "large": window("f32[2,15,15,3]", "add", (1, 7, 7, 1), window_strides=(1, 2, 2, 1), low=(0, 3, 3, 0), high=(0, 2, 2, 0)),
    "dilated": window("f32[70]", "add", (40,), low=(3,), high=(9,), base_dilations=(2,), window_dilations=(2,)),
    "extrema": window("bf16[4,90]", "maximum", (1, 50)),
    "of bits": window("i1[133]", "or", (50,), low=(20,), high=(29,)),
    "products of i32": window("i32[9,50]", "multiply", (3, 40), init=3, low=(0, 5), high=(1, 5)),
    "padding only": window("f32[3]", "add", (2,), init=7.0, low=(40,), high=(40,)),
    "cumulative, but not from 0": cumulative("f32[60]", "add", 0, init=2.0),
}  # fmt: skip
SCANS: dict[str, Graph] = {
    "rows": cumulative("f32[5,1000]", "add", 1),
    "columns": cumulative("f32[100,70]", "add", 0),
    "in chunks": cumulative("i32[5000]", "add", 0),
    "in chunks, from the end": cumulative("f32[2,5000]", "maximum", 1, reverse=True),
    "columns in chunks, from the end": cumulative("i32[700,65]", "xor", 0, reverse=True),
    "middle": cumulative("i32[3,40,5]", "multiply", 1),
    "of bits": cumulative("i1[2,300]", "and", 1),
    "of one": cumulative("f32[40,1]", "add", 0),
    "of nothing": cumulative("f32[0,3]", "add", 1),
}


@pytest.mark.parametrize("name", WINDOWS)
def test_window_kernels_match_reference(name: str) -> None:
    graph = WINDOWS[name]
    assert cumulative_dim(graph.nodes[-1], graph.nodes[0]) is None
    check(graph, length=64)


@pytest.mark.parametrize("name", SCANS)
def test_cumulative_windows_become_scans(name: str) -> None:
    graph = SCANS[name]
    if graph.inputs[0].type.size:
        assert cumulative_dim(graph.nodes[-1], graph.nodes[0]) is not None
    check(graph, length=1000)


def test_cumulative_maximum_keeps_nan() -> None:
    graph = cumulative("f32[3,40]", "maximum", 1)
    (x,) = random_args(graph)
    x[1, 7] = np.nan
    check(graph, args=[x])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("type_", "dim", "kind", "lengths"),
    [
        ("f32[8192,8]", 0, "add", [64, 128]),
        ("bf16[131072]", 0, "maximum", [2048, 64]),
        ("i32[2,65536]", 1, "add", [4096, 16]),
    ],
)
def test_long_cumulative_windows_are_split(type_: str, dim: int, kind: str, lengths: list[int], reverse: bool) -> None:
    """Compare with NumPy's accumulate functions: the reference evaluator takes as many passes as a window has elements."""
    graph = cumulative(type_, kind, dim, reverse=reverse)
    parts = after(split_reduction, graph)
    assert parts.outputs == graph.outputs
    assert [max(n.attrs.window_dimensions) for n in parts.nodes if n.op == "reduce_window"] == lengths
    x = np.random.default_rng(0).integers(0, 9, graph.inputs[0].type.sizes).astype(DTYPES[graph.inputs[0].type.dtype])
    flipped = np.flip(x, dim) if reverse else x
    total = np.add.accumulate(flipped, dim) if kind == "add" else np.maximum.accumulate(flipped, dim)
    np.testing.assert_array_equal(evaluate(parts, [x])[0], np.flip(total, dim) if reverse else total)


@pytest.mark.parametrize("type_", ["f32[40,8]", "f32[1024,4096]", "f32[65537]"])
def test_short_many_and_indivisible_scans_are_not_split(type_: str) -> None:
    graph = cumulative(type_, "add", 0)
    assert [n.op for n in after(split_reduction, graph).nodes] == ["constant", "reduce_window"]


@pytest.mark.parametrize(
    ("type_", "size", "stride", "low", "high"),
    [("f32[2,9,9,3]", 3, 2, 1, 1), ("bf16[1,8,8,5]", 2, 2, 0, 0), ("f32[1,9,9,1]", 2, 3, 0, 0), ("f32[1,4,4,1]", 4, 4, 0, 0),
     ("i32[1,7,7,2]", 3, 1, 0, 0), ("f32[1,1,1,1]", 2, 2, 2, 0)],  # the last case: windows that contain only padding
)  # fmt: skip
@pytest.mark.parametrize("direction", ["GE", "GT"])
def test_max_pooling_gradient_matches_reference(
    type_: str, size: int, stride: int, low: int, high: int, direction: str
) -> None:
    """Check windows with several equal maxima: `direction` decides whether the first or the last one gets the gradient."""
    n, h, _, c = Body(type_).inputs[0].type.sizes
    count = (h + low + high - size) // stride + 1
    dtype = type_.partition("[")[0]
    b = Body(type_, f"{dtype}[{n},{count},{count},{c}]", name="pooling")
    pads = {"low": (0, low, low, 0), "high": (0, high, high, 0)}
    attrs = {"window_dimensions": (1, size, size, 1), "window_strides": (1, stride, stride, 1), **pads}
    result, start = Value(b.inputs[0].type), b.constant(0, dtype)
    regions = (region_of(direction, dtype), region_of("add", dtype))
    b.graph.nodes.append(Node("select_and_scatter", [*b.inputs, start], [result], attrs, regions=regions))
    graph = b.done(result)
    x, source = random_args(graph)
    x = np.random.default_rng(3).integers(0, 3, x.shape).astype(x.dtype)
    check(graph, args=[x, source], length=9)
