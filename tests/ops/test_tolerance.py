"""Tests of error bounds: they cover other summation orders and f64 results, stay small, and expose mistakes."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from meshgen.ir.graph import DTYPES, Graph, TensorType, Value
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.tolerance.bounds import error_bound
from meshgen.testing.oracle import compare

CONTRACT = {"lhs_batch": (), "rhs_batch": (), "lhs_contract": (1,), "rhs_contract": (0,)}


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def chain(depth: int, size: int, dtype: str, op: str = "tanh") -> Graph:
    """Return a graph that repeats x = op(x @ w) `depth` times."""
    kind = TensorType((size, size), dtype)
    graph = Graph("chain", [Value(kind), Value(kind)])
    x, w = graph.inputs
    for _ in range(depth):
        x = graph.add(op, [graph.add("dot_general", [x, w], [kind], CONTRACT).result], [kind]).result
    graph.outputs = [x]
    return graph


def by_blocks(depth: int, x: np.ndarray[Any, Any], w: np.ndarray[Any, Any], parts: int) -> np.ndarray[Any, Any]:
    """Compute the graph of `chain` with each contraction split into `parts` blocks, rounded and added in reverse order."""
    for _ in range(depth):
        cuts = np.array_split(np.arange(len(w)), parts)
        block_results = [(x[:, c].astype(np.float32) @ w[c].astype(np.float32)).astype(x.dtype) for c in cuts]
        total = sum(p.astype(np.float32) for p in reversed(block_results))
        x = np.tanh(total.astype(x.dtype).astype(np.float32)).astype(x.dtype)
    return x


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
@pytest.mark.parametrize("depth", [1, 6])
@pytest.mark.parametrize("parts", [1, 3, 8])
def test_error_bound_covers_other_summation_orders(dtype: str, depth: int, parts: int) -> None:
    x, w = normal(40, 40, dtype=DTYPES[dtype]), (normal(40, 40, seed=1) / 6).astype(DTYPES[dtype])
    graph = chain(depth, 40, dtype)
    (expected,), (bound,) = evaluate(graph, [x, w]), error_bound(graph, [x, w])
    assert compare(graph.outputs[0].type, expected, by_blocks(depth, x, w, parts), bound).ok
    exact = x.astype(np.float64)
    for _ in range(depth):
        exact = np.tanh(exact @ w.astype(np.float64))
    assert compare(graph.outputs[0].type, expected, exact.astype(expected.dtype), bound).ok


def test_error_bound_stays_small_in_deep_programs() -> None:
    x, w = normal(40, 40), normal(40, 40, seed=1) / 6
    (bound,) = error_bound(chain(12, 40, "f32"), [x, w.astype(np.float32)])
    assert bound.max() < 2e-3  # all values have magnitude at most 1


def test_error_bound_detects_missing_term() -> None:
    x, w = normal(40, 40), (normal(40, 40, seed=1) / 6).astype(np.float32)
    graph = chain(3, 40, "f32")
    wrong = w.copy()
    wrong[7] = 0
    bound = error_bound(graph, [x, w])[0]
    comparison = compare(graph.outputs[0].type, *(evaluate(graph, [x, weights])[0] for weights in (w, wrong)), bound)
    assert comparison.max_abs_error > 100 * comparison.tolerance


def test_data_movement_and_integers_have_zero_bound() -> None:
    i32 = TensorType((2, 3), "i32")
    graph = Graph("main", [Value(i32), Value(TensorType((3, 2), "bf16"))])
    a, b = graph.inputs
    transposed = graph.add("transpose", [b], [TensorType((2, 3), "bf16")], {"perm": (1, 0)}).result
    graph.outputs = [graph.add("multiply", [a, a], [i32]).result, transposed]
    args = [np.arange(6, dtype=np.int32).reshape(2, 3), normal(3, 2, dtype=ml_dtypes.bfloat16)]
    assert [b.max() for b in error_bound(graph, args)] == [0, 0]


def test_infinite_and_nan_inputs_do_not_inflate_other_bounds() -> None:
    kind = TensorType((4,), "f32")
    graph = Graph("main", [Value(kind), Value(kind)])
    total = graph.add("add", graph.inputs, [kind]).result
    graph.outputs = [graph.add("exponential", [total], [kind]).result]
    bound = error_bound(graph, [normal(4), np.float32([0, -np.inf, np.nan, np.inf])])[0]
    assert bound[2] == bound[3] == 0 and 0 < bound[0] < 1e-5 and bound[1] < 1e-40


def test_near_ties_widen_bound_of_comparison_and_select() -> None:
    kind, flag = TensorType((3,), "f32"), TensorType((3,), "i1")
    graph = Graph("main", [Value(kind), Value(kind)])
    third = graph.add("tanh", [graph.inputs[0]], [kind]).result
    less = graph.add("compare", [third, graph.inputs[1]], [flag], {"direction": "LT", "compare_type": "FLOAT"}).result
    graph.outputs = [less, graph.add("select", [less, *graph.inputs], [kind]).result]
    x = np.float32([1, 2, 3])
    near = np.tanh(x)
    near[1:] += np.float32([0.5, -0.5])
    decided, chosen = error_bound(graph, [x, near])
    assert decided[1:].tolist() == [0, 0] and chosen[1:].tolist() == [0, 0]
    assert decided[0] >= 1 and chosen[0] >= abs(x[0] - near[0]) / 2


def test_argmax_without_near_ties_has_zero_bound() -> None:
    region = Graph("argmax", [Value(TensorType((), d)) for d in ("f32", "i32", "f32", "i32")])
    a, i, b, j = region.inputs
    attrs = {"direction": "GT", "compare_type": "FLOAT"}
    more = region.add("compare", [a, b], [TensorType((), "i1")], attrs).result
    region.outputs = [region.add("select", [more, x, y], [x.type]).result for x, y in ((a, b), (i, j))]
    kinds = [TensorType((2, 5), "f32"), TensorType((2, 5), "i32"), TensorType((), "f32"), TensorType((), "i32")]
    graph = Graph("main", [Value(k) for k in kinds])
    warm = graph.add("exponential", graph.inputs[:1], kinds[:1]).result
    node = graph.add(
        "reduce_region", [warm, *graph.inputs[1:]], [TensorType((2,), "f32"), TensorType((2,), "i32")], {"dims": (1,)}
    )
    node.regions = (region,)
    graph.outputs = node.results
    x = np.float32([[1, 5, 2, 3, 4], [1, 5, 5, 0, 0]])
    args = [x, np.broadcast_to(np.arange(5, dtype=np.int32), (2, 5)), np.float32(-np.inf), np.int32(0)]
    value, index = error_bound(graph, args)
    assert index[0] == 0 and value.max() < 1e-3


def test_error_bound_follows_loop_iterations() -> None:
    f32, i32 = TensorType((), "f32"), TensorType((), "i32")
    graph = Graph("main", [Value(f32), Value(i32)])
    condition, body = Graph("cond", [Value(f32), Value(i32)]), Graph("body", [Value(f32), Value(i32)])
    zero = condition.add("constant", [], [i32], {"value": np.array(0, np.int32)}).result
    attrs = {"direction": "GT", "compare_type": "SIGNED"}
    condition.outputs = [condition.add("compare", [condition.inputs[1], zero], [TensorType((), "i1")], attrs).result]
    one = body.add("constant", [], [i32], {"value": np.array(1, np.int32)}).result
    third = body.add("multiply", [body.inputs[0], graph.inputs[0]], [f32]).result
    body.outputs = [third, body.add("subtract", [body.inputs[1], one], [i32]).result]
    loop = graph.add("while", graph.inputs, [f32, i32])
    loop.regions = (condition, body)
    graph.outputs = loop.results
    value, left = error_bound(graph, [np.float32(1.1), np.int32(20)])
    assert left == 0 and 0 < value < 2 * 20 * 1.01 * 2.0**-24 * 1.1**21


def test_error_bound_of_rank_dependent_body_is_finite() -> None:
    from meshgen.mesh import make_mesh
    from meshgen.ops.evaluate.evaluator import Evaluator
    from meshgen.runtime.simulate import rank_handlers

    kind = TensorType((3,), "f32")
    graph = Graph("body", [Value(kind)])
    warm = graph.add("tanh", graph.inputs, [kind]).result
    mask = {"dim": 0, "axes": ("x",), "size": 5, "fill": 0.0}
    graph.outputs = [graph.add("mask_padding", [warm], [kind], mask).result]
    evaluator = Evaluator(rank_handlers(make_mesh({"x": 2}), 1))
    (bound,) = error_bound(graph, [np.float32([1, 2, np.nan])], evaluator=evaluator)
    assert np.isfinite(bound).all() and 0 < bound[:2].max() < 1e-5


def product_reduction(terms: int) -> Graph:
    graph = Graph("main", [Value(TensorType((terms,), "f32"), "x")])
    one = graph.add("constant", [], [TensorType((), "f32")], {"value": np.float32(1)}).result
    attrs = {"dims": (0,), "kind": "multiply"}
    graph.outputs = [graph.add("reduce", [graph.inputs[0], one], [TensorType((), "f32")], attrs).result]
    return graph


def test_product_reduction_bound_covers_overflow() -> None:
    """The product of a zero and large numbers is 0, or NaN if the large numbers overflow first."""
    large = np.float32([0] + [100] * 42)
    assert np.prod(large) == 0
    with np.errstate(all="ignore"):
        assert np.isnan(np.prod(np.sort(large)[::-1], dtype=np.float32))
    assert error_bound(product_reduction(43), [large])[0] == np.inf
    assert error_bound(product_reduction(4), [large[:4]])[0] == 0  # products of small integers are exact in any order


def test_product_reduction_bound_covers_underflow() -> None:
    graph = product_reduction(400)
    small = np.float32([0.5] * 100 + [0.4] * 100 + [1.4] * 200)
    products = [np.prod(order, dtype=np.float32) for order in (small, np.sort(small)[::-1])]
    assert products[0] != products[1]
    assert abs(products[0] - products[1]) <= float(error_bound(graph, [small])[0])


def test_scalar_update_has_bound_of_the_update() -> None:
    """Errors of scalars may be NumPy scalars, which do not support assignment to elements."""
    scalar = TensorType((), "f32")
    graph = Graph("update", [Value(scalar), Value(scalar)])
    left, right = (graph.add("tanh", [value], [scalar]).result for value in graph.inputs)
    graph.outputs = [graph.add("dynamic_update_slice", [left, right], [scalar]).result]
    args = [np.array(x, np.float32) for x in (0.1, 0.5)]
    (bound,), (expected,) = error_bound(graph, args), evaluate(graph, args)
    assert expected == np.tanh(np.float32(0.5))
    assert 0 < bound < 1e-5


def test_cholesky_bound_holds_before_a_failed_pivot() -> None:
    """Most of these random matrices are not positive definite, so their factors end in NaN. Elements before the failed
    pivot are rounded as usual.
    """
    kind = TensorType((64, 8, 8), "f32")
    graph = Graph("factor", [Value(kind)])
    graph.outputs = [graph.add("cholesky", graph.inputs, [kind], {"lower": True}).result]
    x = normal(64, 8, 8) + 3.5 * np.eye(8, dtype=np.float32)
    (factor,), (bound,) = evaluate(graph, [x]), error_bound(graph, [x])
    has_failed = np.isnan(factor).any((1, 2))
    assert 0 < has_failed.sum() < 64
    is_number = np.isfinite(factor) & (factor != 0)
    one_rounding = np.spacing(np.abs(factor[is_number])) / 2
    assert (bound[is_number] >= one_rounding).all() and (bound[is_number & np.isfinite(bound)] < 1e-3).all()


def test_irfft_bound_counts_inner_frequencies_twice() -> None:
    """An inner frequency also represents its conjugate, so an error in it reaches the result with weight 2/n."""
    n = 16
    narrow, wide = TensorType((n // 2 + 1,), "bf16"), TensorType((n // 2 + 1,), "f32")
    graph = Graph("inverse", [Value(narrow), Value(narrow), Value(wide)])
    *summands, imaginary = graph.inputs
    real = graph.add("convert", [graph.add("add", summands, [narrow]).result], [wide]).result
    spectrum = graph.add("complex", [real, imaginary], [TensorType((n // 2 + 1,), "c64")]).result
    graph.outputs = [graph.add("fft", [spectrum], [TensorType((n,), "f32")], {"kind": "IRFFT", "length": (n,)}).result]
    x, y = np.zeros((2, n // 2 + 1), ml_dtypes.bfloat16)
    x[3], y[3] = 1.0, 2**-9
    (value,), (bound,) = (run(graph, [x, y, np.zeros(n // 2 + 1, np.float32)]) for run in (evaluate, error_bound))
    spacing = float(
        ml_dtypes.finfo(ml_dtypes.bfloat16).eps
    )  # two valid results differ by at most one spacing, since each has an error of at most half a spacing
    moved = np.fft.irfft(x.astype(np.float64) * (1 + 0.9 * spacing), n)
    assert (np.abs(moved - value) <= bound).all() and bound.max() < 3 * spacing / n
