"""Tests of the `reduce-window-to-slices` pass: small windows become element-wise ops, large ones are unchanged."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from meshgen.codegen.passes.reduce_window_to_slices import reduce_window_to_slices
from meshgen.cost_model.model import DEFAULT
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ops.evaluate.common import neutral
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.types.inference import verify_node
from tests.codegen.bodies import check
from tests.codegen.passes.after import after

KINDS = {"f32": ("add", "multiply", "maximum", "minimum"), "bf16": ("add", "maximum"), "i32": ("add", "minimum", "xor"), "i1": ("and", "or")}  # fmt: skip


def window_size(size: int, window: int, stride: int, low: int, high: int, base: int, dilation: int) -> int:
    padded = low + high + (size - 1) * base + 1 if size else low + high
    reach = (window - 1) * dilation + 1
    return 0 if padded < reach else (padded - reach) // stride + 1


def windowed(sizes: tuple[int, ...], dtype: str, kind: str, attrs: dict[str, Any], *, init: float | None = None, given: bool = False) -> Graph:  # fmt: skip
    """Return a reduce_window of an input.

    Its initial value is a second input if `given`, else `init`, or the neutral element if `init` is None.
    """
    graph = Graph("main", [Value(TensorType(sizes, dtype), "x")])
    scalar = TensorType((), dtype)
    start = neutral(kind, dtype) if init is None else np.array(init, scalar.numpy_dtype)
    if given:
        graph.inputs.append(Value(scalar, "init"))
    init_value = graph.inputs[1] if given else graph.add("constant", [], [scalar], {"value": start}).result
    region = Graph("fold", [Value(scalar), Value(scalar)])
    region.outputs = region.add(kind, region.inputs, [scalar]).results
    names = ("window_dimensions", "window_strides", "low", "high", "base_dilations", "window_dilations")
    shape = [window_size(*part) for part in zip(sizes, *(attrs[name] for name in names), strict=True)]
    node = Node(
        "reduce_window",
        [graph.inputs[0], init_value],
        [Value(TensorType(tuple(shape), dtype))],
        attrs,
        regions=(region,),
    )
    assert not verify_node(node)
    graph.nodes.append(node)
    graph.outputs = node.results
    return graph


def plain(rank: int, **changes: tuple[int, ...]) -> dict[str, Any]:
    ones = dict.fromkeys(("window_dimensions", "window_strides", "base_dilations", "window_dilations"), (1,) * rank)
    return {**ones, "low": (0,) * rank, "high": (0,) * rank, **changes}


def random_attrs(rng: np.random.Generator, sizes: tuple[int, ...]) -> dict[str, Any]:
    def some(low: int, high: int) -> tuple[int, ...]:
        return tuple(int(n) for n in rng.integers(low, high, len(sizes)))

    return {
        "window_dimensions": some(1, 4), "window_strides": some(1, 4), "base_dilations": some(1, 3),
        "window_dilations": some(1, 3), "low": some(-1, 3), "high": some(-1, 3),
    }  # fmt: skip


def test_random_windows_keep_results() -> None:
    rng, written = np.random.default_rng(0), 0
    for iteration in range(300):
        dtype = list(KINDS)[iteration % len(KINDS)]
        kind = str(rng.choice(KINDS[dtype]))
        sizes = tuple(int(n) for n in rng.integers(2, 7, rng.integers(1, 4)))
        attrs = random_attrs(rng, sizes)
        is_init_input = bool(rng.random() < 0.3)
        graph = windowed(sizes, dtype, kind, attrs, init=0 if rng.random() < 0.3 else None, given=is_init_input)
        if not graph.outputs[0].type.size:
            continue
        changed = after(reduce_window_to_slices, graph)
        assert not [fault for node in changed.nodes for fault in verify_node(node)]
        written += not any(node.op == "reduce_window" for node in changed.nodes)
        args = [
            np.asarray(rng.integers(0, 2 if dtype == "i1" else 5, v.type.sizes)).astype(v.type.numpy_dtype)
            for v in graph.inputs
        ]
        (got,), (want,) = evaluate(changed, args), evaluate(graph, args)
        rounding = 1e-6 if dtype == "f32" else 0  # products of many f32 numbers are rounded in another order
        np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=rounding)
        assert got.dtype == want.dtype
    assert written >= 200


def test_bf16_window_sum_is_rounded_once() -> None:
    graph = windowed((8,), "bf16", "add", plain(1, window_dimensions=(8,)))
    x = np.array([256, *[1] * 7], ml_dtypes.bfloat16)  # 256 + 1 is 256 in bf16
    assert float(evaluate(after(reduce_window_to_slices, graph), [x])[0][0]) == float(ml_dtypes.bfloat16(263))


@pytest.mark.parametrize("dtype", ["f32", "bf16"])
def test_pooling_is_fused_with_its_user(dtype: str) -> None:
    pooled = windowed((2, 9, 9, 3), dtype, "maximum",
                      plain(4, window_dimensions=(1, 3, 3, 1), window_strides=(1, 2, 2, 1), low=(0, 1, 1, 0), high=(0, 1, 1, 0)))  # fmt: skip
    body = after(reduce_window_to_slices, pooled)
    body.outputs = [body.add("tanh", body.outputs, [body.outputs[0].type]).result]
    body.name = "pool"
    check(body, ulps=8)


def test_large_windows_are_unchanged() -> None:
    large = windowed((64,), "f32", "add", plain(1, window_dimensions=(DEFAULT.fusion.window_elements + 1,)))
    assert [n.op for n in after(reduce_window_to_slices, large).nodes] == ["constant", "reduce_window"]
    assert math.prod(large.nodes[1].attrs.window_dimensions) == DEFAULT.fusion.window_elements + 1
    most = windowed((64,), "f32", "add", plain(1, window_dimensions=(DEFAULT.fusion.window_elements,)))
    assert "reduce_window" not in [n.op for n in after(reduce_window_to_slices, most).nodes]
