"""Tests of the reference evaluator for windows, scatter and sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.one_op import BF16, compare_region, normal, run, scalar_region, second_region

WINDOWS = [
    {"window": (2, 3), "strides": (1, 2), "pads": ((0, 1), (1, 1)), "base": (1, 1), "dilation": (1, 1)},
    {"window": (2, 2), "strides": (2, 1), "pads": ((0, 0), (2, 0)), "base": (2, 1), "dilation": (1, 3)},
    # a cumulative sum
    {"window": (1, 6), "strides": (1, 1), "pads": ((0, 0), (5, 0)), "base": (1, 1), "dilation": (1, 1)},
]


@pytest.mark.parametrize("case", WINDOWS)
@pytest.mark.parametrize("ops", [("add",), ("maximum",), ("add", "maximum")])
def test_reduce_window_matches_direct_loop(case: dict[str, Any], ops: tuple[str, ...]) -> None:
    x = np.random.default_rng(0).integers(-5, 6, (5, 6)).astype(np.float32)
    low, high = zip(*case["pads"], strict=True)
    init = np.float32(0 if ops[0] == "add" else -np.inf)
    body = {"add": np.add, "maximum": np.maximum}
    result = run("reduce_window", x, init, window_dimensions=case["window"], window_strides=case["strides"],
                base_dilations=case["base"], window_dilations=case["dilation"], low=low, high=high,
                regions=(scalar_region(*ops),))  # fmt: skip
    padded = run("pad", x, init, low=low, high=high, interior=tuple(b - 1 for b in case["base"]))
    for position in np.ndindex(*result.shape):
        total = None
        for offset in np.ndindex(*case["window"]):
            at = tuple(
                p * s + o * d for p, s, o, d in zip(position, case["strides"], offset, case["dilation"], strict=True)
            )
            if total is None:
                total = padded[at]
                continue
            b = padded[at]
            for op in ops:
                total = body[op](total, b)
        b = total
        total = init
        for op in ops:
            total = body[op](total, b)
        assert result[position] == total


def test_select_and_scatter_is_the_gradient_of_max_pooling() -> None:
    jax = pytest.importorskip("jax")
    x, source = normal(4, 6), normal(2, 4, seed=1)

    def pooled(a: Any) -> Any:
        return jax.lax.reduce_window(a, -np.inf, jax.lax.max, (2, 3), (2, 2), ((0, 0), (1, 2)))

    (expected,) = jax.vjp(pooled, x)[1](source)
    result = run("select_and_scatter", x, source, np.float32(0), window_dimensions=(2, 3), window_strides=(2, 2),
                low=(0, 1), high=(0, 2), regions=(compare_region("GE", "f32"), scalar_region("add")))  # fmt: skip
    assert np.abs(result - np.asarray(expected)).max() <= 4 * 2.0**-24 * np.abs(source).max()


ROWS = {"update_window_dims": (1,), "inserted_window_dims": (0,), "input_batching_dims": (), "scatter_indices_batching_dims": (),
            "scatter_dims_to_operand_dims": (0,), "index_vector_dim": 1}  # fmt: skip


def test_scatter_combines_updates_and_drops_out_of_bounds() -> None:
    x, update = np.zeros((4, 2), np.float32), np.arange(1, 11, dtype=np.float32).reshape(5, 2)
    index = np.int32([[1], [1], [9], [-1], [3]])
    added = run("scatter", x, index, update, regions=(scalar_region("add"),), **ROWS)
    assert added.tolist() == [[0, 0], [4, 6], [0, 0], [9, 10]]
    replaced = run("scatter", x, index, update, regions=(second_region(),), **ROWS)
    assert replaced.tolist() == [[0, 0], [3, 4], [0, 0], [9, 10]]
    clipped = run("scatter", x + 2, index, update, regions=(scalar_region("multiply", "maximum"),), **ROWS)
    assert clipped.tolist() == [[2, 2], [6, 16], [2, 2], [18, 20]]


def test_scatter_add_of_many_bf16_rounds_once() -> None:
    index = np.zeros((1000, 1), np.int32)
    result = run("scatter", np.zeros((1, 1), BF16), index, np.ones((1000, 1), BF16),
                regions=(scalar_region("add", dtype="bf16"),), **ROWS)  # fmt: skip
    assert result[0, 0] == 1000


@pytest.mark.parametrize("count", [0, 1, 2, 5, 13, 16])
def test_sort_is_stable_for_any_length(count: int) -> None:
    rng = np.random.default_rng(count)
    keys, payload = rng.integers(0, 4, (count, 3)).astype(np.int32), np.arange(count * 3).reshape(count, 3)
    a, b = run("sort", keys, payload, dim=0, is_stable=True, regions=(compare_region("LT", "i32", "i64"),))
    order = np.argsort(keys, 0, kind="stable")
    assert (a == np.take_along_axis(keys, order, 0)).all() and (b == np.take_along_axis(payload, order, 0)).all()
    down, _ = run("sort", keys, payload, dim=0, regions=(compare_region("GT", "i32", "i64"),))
    assert (down == np.sort(keys, 0)[::-1]).all()


def test_top_k_sorts_nan_first_and_keeps_order_of_ties() -> None:
    x = np.float32([[1, 5, np.nan, 5, -1], [0, -0.0, 3, 2, 2]])
    values, index = run("top_k", x, k=3)
    assert index.tolist() == [[2, 1, 3], [2, 3, 4]]
    assert np.isnan(values[0, 0]) and values[1].tolist() == [3, 2, 2]
    assert run("top_k", np.uint64([2**64 - 1, 0, 2**63]), k=2)[1].tolist() == [0, 2]


def test_reduce_window_larger_than_operand_is_empty() -> None:
    x, zero = np.ones((3, 4), np.float32), np.float32(0)
    ones, wide = (1, 1), (1 << 40, 1)
    attrs = {"window_strides": ones, "base_dilations": ones, "window_dilations": ones, "low": (0, 0), "high": (0, 0)}
    for region in (scalar_region("add"), scalar_region("add", "multiply")):
        assert run("reduce_window", x, zero, regions=(region,), window_dimensions=wide, **attrs).shape == (0, 4)
