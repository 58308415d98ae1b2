"""Masks by position come last in the function of a score, and the function stays the same."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from meshgen.codegen.attention.masks import with_masks_last
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ops.evaluate.evaluator import evaluate

F, N = TensorType((), "f32"), TensorType((), "i32")
Write = Callable[[Builder, Value, Value, Value, Value], Value]
"""Writes a function of a score, an element and two positions."""


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


def with_data(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    both = b.elementwise("and", inside(b, row, key), b.compare("GT", e, b.splat(0, F)))
    return b.elementwise("select", both, b.elementwise("add", s, e), b.splat(-1e30, F))


def function(write: Write) -> Graph:
    graph = Graph("score", [Value(F), Value(F), Value(N), Value(N)])
    graph.outputs = [write(Builder(graph), *graph.inputs)]
    return graph


def same(graph: Graph, other: Graph) -> bool:
    random = np.random.default_rng(0)
    for row in range(4):
        for key in range(4):
            args = [*random.standard_normal(2).astype(np.float32), np.int32(row), np.int32(key)]
            if evaluate(graph, args)[0] != evaluate(other, args)[0]:
                return False
    return True


@pytest.mark.parametrize("write", [subtracted, multiplied, inverted, scaled_after, window, with_data])
def test_masks_by_position_become_the_last_select(write: Write) -> None:
    before = function(write)
    after = with_masks_last(before, 2)
    last = after.nodes[-1]
    assert last.op == "select" and last.result is after.outputs[0] and same(before, after)
    condition = after.index.producers[last.operands[0]]
    tests = condition.operands if condition.op == "and" else [condition.result]
    assert all(set(after.index.producers[test].operands).isdisjoint(after.inputs[:2]) for test in tests)
    assert len(tests) == (2 if write is window else 1)


def chosen(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    """No mask: another number where a key comes after."""
    return b.elementwise("select", inside(b, row, key), s, e)


def of_data(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    return b.elementwise("select", b.compare("GT", e, b.splat(0, F)), s, b.splat(-1e30, F))


def prefix(b: Builder, s: Value, e: Value, row: Value, key: Value) -> Value:
    """Some keys after a row are not masked, and data says which."""
    either = b.elementwise("or", inside(b, row, key), b.compare("GT", e, b.splat(0, F)))
    return b.elementwise("select", either, s, b.splat(-1e30, F))


@pytest.mark.parametrize("write", [chosen, of_data, prefix])
def test_what_no_position_masks_stays(write: Write) -> None:
    before = function(write)
    assert with_masks_last(before, 2) is before
