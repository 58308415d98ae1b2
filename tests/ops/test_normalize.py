"""Tests of the normalize op and its gradient: semantics for any dims, types, sharding rule and error bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_op import BF16, normal, run

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ops.composites import decomposed
from meshgen.ops.flops import node_flops
from meshgen.ops.registry import rule_of
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.ops.types.inference import infer_types, verify_node

LAYER = "t d, d, d -> t d, t, t"
GRADIENT = "t d, t d, t, t, d -> t d"


def reference_normalize(
    x: Any, over: tuple[int, ...], scale: Any = 1, bias: Any = 0, *, centered: bool = True
) -> list[Any]:
    wide = x.astype(np.float64)
    mean = wide.mean(over, keepdims=True) if centered else 0 * wide.mean(over, keepdims=True)
    variance = ((wide - mean) ** 2).mean(over, keepdims=True)
    result = (wide - mean) / np.sqrt(variance + 1e-5) * scale + bias
    return [result, *([mean.squeeze(over)] if centered else []), variance.squeeze(over)]


@pytest.mark.parametrize(("factors", "over"), [("a b c -> a b c, a b", (2,)), ("a b c -> a b c, ()", (0, 1, 2)), ("a b c -> a b c, b", (0, 2))])  # fmt: skip
@pytest.mark.parametrize("centered", [True, False])
def test_normalize_reduces_factors_missing_from_statistics(factors: str, over: Any, centered: bool) -> None:
    text = f"{factors}, {factors.rpartition(', ')[2]}" if centered else factors
    results = run("normalize", x := normal(4, 3, 5), factors=text, centered=centered, epsilon=1e-5)
    for value, expected in zip(results, reference_normalize(x, over, centered=centered), strict=True):
        np.testing.assert_allclose(value, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dtype", [np.float64, np.float32, BF16])
def test_scale_and_bias_are_applied_in_statistics_dtype(dtype: Any) -> None:
    x, scale, bias = normal(6, 5, dtype=dtype), normal(5, seed=1), normal(5, seed=2)
    result, mean, _ = run("normalize", x, scale, bias, factors=LAYER, centered=True, epsilon=1e-5)
    assert (result.dtype, mean.dtype) == (x.dtype, np.float64 if dtype is np.float64 else np.float32)
    expected = reference_normalize(x, (1,), scale, bias)[0]
    np.testing.assert_allclose(result.astype(np.float64), expected, rtol=1e-2 if dtype is BF16 else 1e-5, atol=1e-5)


@pytest.mark.parametrize("centered", [True, False])
def test_normalize_gradient_matches_finite_differences(centered: bool) -> None:
    x, cotangent, scale = normal(3, 5, dtype=np.float64), normal(3, 5, seed=1, dtype=np.float64), normal(5, seed=2, dtype=np.float64)  # fmt: skip
    _, *statistics = reference_normalize(x, (1,), centered=centered)
    rows = [*statistics[:-1], 1 / np.sqrt(statistics[-1] + 1e-5)]
    text = GRADIENT if centered else "t d, t d, t, d -> t d"
    gradient = run("normalize_gradient", cotangent, x, *rows, scale, factors=text, centered=centered)
    for at in np.ndindex(x.shape):
        step = np.zeros_like(x)
        step[at] = 1e-6
        ends = [
            (reference_normalize(x + d, (1,), scale, centered=centered)[0] * cotangent).sum() for d in (step, -step)
        ]
        np.testing.assert_allclose(gradient[at], (ends[0] - ends[1]) / 2e-6, rtol=1e-5, atol=1e-7)


def node_of(factors: str, *shapes: tuple[int, ...], **attrs: Any) -> Node:
    operands = [Value(TensorType(shape, "f32")) for shape in shapes]
    attrs = {"factors": factors, "centered": True, "epsilon": 1e-5, **attrs}
    types = infer_types("normalize", attrs, [value.type for value in operands])
    assert types is not None
    return Node("normalize", operands, [Value(kind) for kind in types], attrs)


def test_normalize_error_bound_equals_decomposition() -> None:
    node = node_of(LAYER, (4, 8), (8,), (8,))
    args = [normal(4, 8), normal(8), normal(8)]
    graph = Graph("main", list(node.operands), [node], list(node.results))
    bounds = [error_bound(variant, args) for variant in (graph, decomposed(node))]
    assert [np.array_equal(*pair) for pair in zip(*bounds, strict=True)] == [True] * 3
    assert 0 < bounds[0][0].max() < 1e-4


def test_normalize_rule_combines_sharded_reduced_dims() -> None:
    node = node_of("a b c, c -> a b c, a, a", (4, 3, 8), (8,))
    assert rule_of(node).notation() == "a b c, c -> a b c, a, a combine(b) combine(c)"
    assert node_flops(node) == 8 * 4 * 3 * 8


FAULTS = [
    ("t d", ((4, 8),), "is not of the form"),
    ("t d -> t d, t", ((4, 8),), "are not those of 1 operands and 3 results"),
    ("t d -> t d, t, t", ((4, 8), (8,)), "are not those of 2 operands and 3 results"),
    ("t d, d -> t d, t, t", ((4, 8), (4,)), "factor 'd' has sizes 8 and 4"),
    ("t -> t, t, t", ((4, 8),), "are not the dims of"),
    ("t d -> t d, t d, t d", ((4, 8),), "none is reduced"),
    ("t d -> d t, t, t", ((4, 8),), "the result must have the dims of the operand"),
    ("t d -> t d, t, d", ((4, 8),), "statistics differ in factors"),
    ("t d e -> t d e, d t, d t", ((4, 8, 2),), "dims must be in the order of the reduced operand's dims"),
    ("t d -> t d, u, u", ((4, 8),), "factor 'u' of a result is in no operand"),
    ("t d -> t d, t, t", ((4, 0),), "has no elements"),
]


@pytest.mark.parametrize(("factors", "shapes", "message"), FAULTS)
def test_malformed_normalize_is_refused(factors: str, shapes: Any, message: str) -> None:
    operands = [Value(TensorType(shape, "f32")) for shape in shapes]
    sizes = {"t": 4, "d": shapes[0][1], "e": 2, "u": 3}
    words = [word.split() for word in factors.partition("->")[2].split(",")]
    results = [Value(TensorType(tuple(sizes[f] for f in word), "f32")) for word in words]
    node = Node("normalize", operands, results, {"factors": factors, "centered": True, "epsilon": 1e-5})
    assert message in verify_node(node)[0].message


def test_normalize_gradient_refuses_wrong_operand_dtypes() -> None:
    x, row = TensorType((4, 8), "f32"), TensorType((4,), "f32")
    attrs = {"factors": "t d, t d, t, t -> t d", "centered": True}
    for kinds, message in (((x, x, row), "takes 4 or 5 operands"), ((x, x, row, TensorType((4,), "f64")), "statistics must be f32"),
                           ((x, x, row, TensorType((4,), "i32")), "operands must be floats")):  # fmt: skip
        faults = verify_node(Node("normalize_gradient", [Value(kind) for kind in kinds], [Value(x)], attrs))
        assert message in faults[0].message
