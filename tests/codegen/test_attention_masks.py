"""Tests of masks by position: however the mask is written, the kernel derives from it which keys each row can see."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from meshgen.codegen import expr
from meshgen.codegen.expr import ZERO, Var
from meshgen.codegen.fusion.attention_bounds import Positions, table_of
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ops.evaluate.evaluator import evaluate
from tests.ops.attention_nodes import node_of

F, N = TensorType((), "f32"), TensorType((), "i32")
Write = Callable[[Builder, Value, Value, Value, Value], Value]
"""A function that emits the score from a score, an element, a row position and a key position."""


def inside(b: Builder, row: Value, key: Value) -> Value:
    return b.compare("GE", row, key)


def near(b: Builder, row: Value, key: Value) -> Value:
    return b.compare("LT", b.elementwise("subtract", row, key), b.splat(2, N))


def subtracted(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    flag = b.convert(inside(b, row, key), "f32")
    return b.elementwise(
        "subtract", s, b.elementwise("multiply", b.splat(1e9, F), b.elementwise("subtract", b.splat(1, F), flag))
    )


def multiplied(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    flag = b.convert(inside(b, row, key), "f32")
    fill = b.elementwise("multiply", b.splat(-1e9, F), b.elementwise("subtract", b.splat(1, F), flag))
    return b.elementwise("add", b.elementwise("multiply", s, flag), fill)


def inverted(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    return b.elementwise("select", b.compare("LT", row, key), b.splat(-np.inf, F), s)


def scaled_after(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    return b.elementwise(
        "multiply", b.elementwise("select", inside(b, row, key), s, b.splat(-1e30, F)), b.splat(0.5, F)
    )


def window(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    low = b.splat(-1e30, F)
    return b.elementwise("select", near(b, row, key), b.elementwise("select", inside(b, row, key), s, low), low)


def both_ways(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    """Select the score by a comparison, and the fill by the opposite comparison."""
    fill = b.elementwise("select", b.compare("LT", row, key), b.splat(-1e9, F), b.splat(0, F))
    return b.elementwise("add", b.elementwise("select", inside(b, row, key), s, b.splat(0, F)), fill)


def with_data(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    condition = b.elementwise("and", inside(b, row, key), b.compare("GT", e, b.splat(0, F)))
    return b.elementwise("select", condition, b.elementwise("add", s, e), b.splat(-1e30, F))


def shared(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    """Use each value twice in the next op: visiting every path to the score would take 2**40 steps."""
    flag = b.convert(inside(b, row, key), "f32")
    score = b.elementwise("multiply", b.elementwise("multiply", s, b.splat(2.0**-40, F)), flag)
    for _ in range(40):
        score = b.elementwise("add", score, score)
    fill = b.elementwise("multiply", b.splat(-1e9, F), b.elementwise("subtract", b.splat(1, F), flag))
    return b.elementwise("add", score, fill)


def shared_inside(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    for _ in range(40):
        s = b.elementwise("maximum", s, s)
    return subtracted(b, s, e, row, key)


SIZE = 4
ROW, KEY = (Var(name, 0, SIZE - 1) for name in "ts")


def attention(write: Write) -> tuple[Positions, Graph]:
    """Return an attention node with an operand of the scores' shape, as kernels emit it, and its score function."""

    def score(builder: Builder, region_args: list[Value]) -> Value:
        return write(builder, *region_args)

    sizes = dict.fromkeys("tsde", SIZE)
    node = node_of("t d, s d, s e, t s -> t e, t", sizes, elements=("f32",), positions=("t", "s"), score=score)
    return Positions(node, table_of(node), lambda value: None, lambda axes: ZERO), node.regions[0]


@pytest.mark.parametrize(
    "write", [subtracted, multiplied, inverted, scaled_after, window, both_ways, with_data, shared, shared_inside]
)
def test_masks_by_position_bound_keys(write: Write) -> None:
    """Check the visible range of keys that is derived from a mask.

    Inside the range, the score equals the score computed without comparisons. Outside, it equals the fill value, or the
    sum of the fill value and the score.
    """
    positions, region = attention(write)
    mask = positions.mask(region, KEY, ROW)
    assert mask is not None and len(mask.tests) == (2 if write is window else 1)
    inside = positions.where(region, mask.tests)
    assert set(inside.inputs[2:]).isdisjoint(value for node in inside.nodes for value in node.operands)
    random = np.random.default_rng(0)
    for row in range(SIZE):
        for key in range(SIZE):
            args = [*random.standard_normal(2).astype(np.float32), np.int32(row), np.int32(key)]
            (value,) = evaluate(region, args)
            if all(expr.evaluate(test, {"t": row, "s": key}) >= 0 for test in mask.tests):
                assert value == evaluate(inside, args)[0] > mask.limit or write is with_data
            else:
                assert value == mask.fill or abs(value - mask.fill) < 100


def chosen(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    """Return a score that is not masked: another element replaces it for keys after the row."""
    return b.elementwise("select", inside(b, row, key), s, e)


def of_data(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    return b.elementwise("select", b.compare("GT", e, b.splat(0, F)), s, b.splat(-1e30, F))


def prefix(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    """Leave some keys after the row unmasked, depending on data."""
    either = b.elementwise("or", inside(b, row, key), b.compare("GT", e, b.splat(0, F)))
    return b.elementwise("select", either, s, b.splat(-1e30, F))


@pytest.mark.parametrize("write", [chosen, of_data, prefix])
def test_data_dependent_scores_have_no_position_mask(write: Write) -> None:
    positions, region = attention(write)
    assert positions.mask(region, KEY, ROW) is None


def test_masks_by_device_coordinate_bound_keys() -> None:
    """Check a mask that depends on the device's coordinate, which cannot be constant-folded."""

    def score(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
        coordinate = b.emit("process_index", [], N, axes=("x",))
        return b.elementwise("select", inside(b, b.elementwise("add", row, coordinate), key), s, b.splat(-1e30, F))

    positions, region = attention(score)
    mask = positions.mask(region, KEY, ROW)
    assert mask is not None and mask.fill < -1e29
