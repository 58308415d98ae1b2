"""Tests of error bounds of f32 matmuls on tensor cores: they cover tf32 and tf32x3 results, and no lower precision."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from test_tolerance import normal

from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.ops.tolerance.sums import bilinear
from meshgen.ops.tolerance.tracked import TF32X3_UNIT, UNIT, Tracked
from meshgen.testing.oracle import compare

Array = np.ndarray[Any, Any]
WORDS = {"tf32": "DEFAULT", "tf32x3": "HIGH", "f32": "HIGHEST"}


def matmul(multiplied: str, size: int = 64) -> Graph:
    kind = TensorType((size, size), "f32")
    graph = Graph("product", [Value(kind), Value(kind)])
    attrs = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,),
             "precision": (WORDS[multiplied],) * 2}  # fmt: skip
    graph.outputs = [graph.add("dot_general", graph.inputs, [kind], attrs).result]
    return graph


def cut(x: Array) -> Array:
    """Truncate f32 values to tf32, as tensor cores truncate their operands."""
    return (x.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def nearest(x: Array) -> Array:
    return ((x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)).view(np.float32)


def multiply_tf32x3(a: Array, b: Array) -> Array:
    """Multiply with three tf32 matmuls, which cover all products of high and low parts except low times low."""
    (p, q), (r, s) = ((nearest(x), cut(x - nearest(x))) for x in (a, b))
    wide = [x.astype(np.float64) for x in (p, q, r, s)]
    return (wide[0] @ wide[2] + wide[0] @ wide[3] + wide[1] @ wide[2]).astype(np.float32)


def is_within(multiplied: str, a: Array, b: Array, result: Array, *, tf32: bool = True) -> bool:
    graph = matmul(multiplied, len(a))
    (expected,), (bound,) = evaluate(graph, [a, b]), error_bound(graph, [a, b], tf32=tf32)
    return compare(graph.outputs[0].type, expected, result, bound).ok


COMPUTED = {
    "tf32": lambda a, b: cut(a) @ cut(b),
    "tf32x3": multiply_tf32x3,
    "f32": lambda a, b: (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float32),
    "f8": lambda a, b: a.astype(ml_dtypes.float8_e4m3fn).astype(np.float32) @ b,
}


@pytest.mark.parametrize("size", [8, 64, 300])
@pytest.mark.parametrize("multiplied", list(WORDS))
def test_tf32_bound_covers_requested_precision_and_nothing_less(multiplied: str, size: int) -> None:
    a, b = normal(size, size), normal(size, size, seed=1)
    order = ["f8", "tf32", "tf32x3", "f32"]
    for other in order:
        is_enough = order.index(other) >= order.index(multiplied)
        if {multiplied, other} != {"tf32x3", "f32"}:  # tf32x3 and f32 results differ too little to be told apart
            assert is_within(multiplied, a, b, COMPUTED[other](a, b)) == is_enough, other


def test_tf32_bound_covers_subnormal_and_large_numbers() -> None:
    """tf32 has the exponent range of f32, and fewer mantissa bits in subnormal numbers."""
    a, b = normal(16, 16) * np.float32(1e-39), normal(16, 16, seed=1) * np.float32(1e37)
    assert is_within("tf32", a, b, cut(a) @ cut(b))
    assert not is_within("tf32", a, b, cut(a) @ cut(b) * np.float32(1.2))


def test_tf32_bound_adds_no_rounding_for_exact_operands() -> None:
    """Operands that tf32 represents, such as bf16 values and small integers, are not rounded; only the accumulator is."""
    a, b = (normal(64, 64, seed=seed).astype(ml_dtypes.bfloat16).astype(np.float32) for seed in (0, 1))
    graph = matmul("tf32")
    np.testing.assert_array_equal(error_bound(graph, [a, b], tf32=True)[0], error_bound(graph, [a, b])[0])
    x = normal(64, 64, seed=2)
    one_rounded, both_rounded = (error_bound(graph, [x, y], tf32=True)[0] for y in (b, b * np.float32(1 + 2**-12)))
    assert np.median(one_rounded) < 0.75 * np.median(both_rounded)
    integers = [np.rint(x * 9) for x in (a, b)]
    assert not error_bound(graph, integers, tf32=True)[0].any()
    # 4096 plus a small integer needs more than 11 bits
    assert error_bound(graph, [integers[0] + np.float32(4096), integers[1]], tf32=True)[0].all()


def test_cpu_bound_does_not_cover_tf32() -> None:
    a, b = normal(64, 64), normal(64, 64, seed=1)
    assert not is_within("tf32", a, b, cut(a) @ cut(b), tf32=False)
    assert is_within("tf32", a, b, COMPUTED["f32"](a, b), tf32=False)


@pytest.mark.parametrize("size", [1, 64, 512])
def test_tf32x3_bound_counts_three_sums_and_the_dropped_product(size: int) -> None:
    """Operands have errors of one unit, tf32x3 omits low times low, and its three matmuls each round their accumulator."""
    a, b = normal(size, size), normal(size, size, seed=1)
    node = matmul("tf32x3", size).nodes[0]
    exact = [Tracked(x, np.zeros(x.shape), np.abs(x).astype(np.float64)) for x in (a, b)]
    (bound,) = bilinear(node, exact, [a @ b], tf32=True)
    magnitude = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    assert np.all(bound.error >= (3 * TF32X3_UNIT + 3 * size * UNIT["f32"]) * magnitude)
    (plain,) = bilinear(matmul("f32", size).nodes[0], exact, [a @ b], tf32=True)
    typical = np.abs(a @ b) + np.sqrt(np.square(a, dtype=np.float64) @ np.square(b, dtype=np.float64))
    grown = (np.sqrt(3) - 1) * np.sqrt(size) * UNIT["f32"]
    assert np.all(bound.rounding >= plain.rounding + (3 * TF32X3_UNIT + 0.99 * grown) * typical)
