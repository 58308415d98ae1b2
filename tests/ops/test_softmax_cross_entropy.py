"""Tests of the softmax_cross_entropy op: semantics for classes along any dim, types and sharding rule."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from one_op import normal, run

from meshgen.ir.graph import Node, TensorType, Value
from meshgen.ops.registry import rule_of
from meshgen.ops.types.inference import verify_node


@pytest.mark.parametrize(
    ("factors", "axis"), [("t v, t -> t, t", 1), ("v t, t -> t, t", 0), ("a v b, a b -> a b, a b", 1)]
)
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_losses_equal_negative_log_softmax(factors: str, axis: int, dtype: Any) -> None:
    sizes = {"t": 4, "v": 300 if dtype is np.uint8 else 7, "a": 3, "b": 5}
    logits = 1000 + 30 * normal(*(sizes[f] for f in factors.split(",")[0].split()))
    labels = np.random.default_rng(0).integers(0, 7, np.delete(logits.shape, axis)).astype(dtype)
    losses, rows = run("softmax_cross_entropy", logits, labels, factors=factors)
    wide = logits.astype(np.float64)
    expected = np.log(np.exp(wide - wide.max(axis, keepdims=True)).sum(axis)) + wide.max(axis)
    np.testing.assert_allclose(rows, expected, rtol=1e-6)
    picked = np.take_along_axis(wide, np.expand_dims(labels.astype(np.int64), axis), axis).squeeze(axis)
    np.testing.assert_allclose(losses, expected - picked, rtol=1e-5, atol=1e-5)


def test_label_out_of_range_selects_no_logit() -> None:
    losses, rows = run("softmax_cross_entropy", normal(3, 5), np.array([-100, 5, 2]), factors="t v, t -> t, t")
    assert (losses[:2] == rows[:2]).all() and losses[2] != rows[2]


def node_of(factors: str, labels: str = "i32", logits: str = "f32") -> Node:
    sizes = {"t": 4, "v": 6, "u": 3}
    left, right = ([word.split() for word in side.split(",")] for side in factors.split("->"))
    operands = [
        Value(TensorType(tuple(sizes[f] for f in word), kind))
        for word, kind in zip(left, (logits, labels), strict=True)
    ]
    results = [Value(TensorType(tuple(sizes[f] for f in word), "f32")) for word in right]
    return Node("softmax_cross_entropy", operands, results, {"factors": factors})


def test_softmax_cross_entropy_rule_combines_sharded_classes() -> None:
    assert rule_of(node_of("t v, t -> t, t")).notation() == "t v, t -> t, t combine(v)"


FAULTS = [
    ("t v, t -> t, t", "f32", "f32", "element type f32 is not integer"),
    ("t v, t -> t, t", "i32", "i32", "logits must be floats"),
    ("t u v, t -> t, t", "i32", "f32", "labels must have all factors of the logits except the classes"),
    ("t u v, u t -> u t, u t", "i32", "f32", "dims must be in the order"),
    ("t v, t -> t, v", "i32", "f32", "results must have the dims of the labels"),
]


@pytest.mark.parametrize(("factors", "labels", "logits", "message"), FAULTS)
def test_malformed_softmax_cross_entropy_is_refused(factors: str, labels: str, logits: str, message: str) -> None:
    assert any(message in fault.message for fault in verify_node(node_of(factors, labels, logits)))
