"""Tests of the graph builder: each helper infers its result type and computes the same values as its NumPy function."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from meshgen.errors import Location
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ops.evaluate.evaluator import evaluate
from meshgen.ops.types.inference import verify_graph

X = np.arange(1, 7, dtype=np.int32).reshape(2, 3)
CASES: dict[str, tuple[Callable[[Builder, Value], Value], np.ndarray]] = {
    "elementwise": (lambda b, x: b.elementwise("add", x, x), X + X),
    "elementwise of another type": (lambda b, x: b.elementwise("is_finite", b.convert(x, "f32"), dtype="i1"), X > 0),
    "compare": (lambda b, x: b.compare("GE", x, b.splat(3, x.type)), X >= 3),
    "splat": (lambda b, x: b.splat(7, x.type), np.full((2, 3), 7, np.int32)),
    "spread": (lambda b, x: b.spread(x, (4, 3, 2), (2, 1)), np.broadcast_to(X.T, (4, 3, 2))),
    "convert": (lambda b, x: b.convert(x, "f32"), X.astype(np.float32)),
    "bits": (lambda b, x: b.bits(x, "ui32"), X.view(np.uint32)),
    "reshape": (lambda b, x: b.reshape(x, (3, 2)), X.reshape(3, 2)),
    "transpose": (lambda b, x: b.transpose(x, (1, 0)), X.T),
    "slice": (lambda b, x: b.slice(x, (0, 1), (1, 3)), X[:1, 1:]),
    "rows": (lambda b, x: b.rows(x, 1, 1, 2), X[:, 1:2]),
    "pad": (lambda b, x: b.pad(x, b.splat(9, x.type.with_shape(())), (0, -1), (1, 2)), np.pad(X[:, 1:], ((0, 1), (0, 2)), constant_values=9)),
    "concatenate": (lambda b, x: b.concatenate([x, b.rows(x, 1, 0, 1)], 1), np.concatenate([X, X[:, :1]], 1)),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_builder_helper_infers_type_and_matches_numpy(case: str) -> None:
    build, expected = CASES[case]
    x, loc = Value(TensorType((2, 3), "i32")), Location("program.mlir", 3)
    builder = Builder(Graph("main", [x]), loc)
    builder.graph.outputs = [build(builder, x)]
    assert not verify_graph(builder.graph)
    assert all(node.loc == loc for node in builder.graph.nodes)
    (result,) = evaluate(builder.graph, [X])
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result, expected)


def test_conversion_to_same_type_adds_no_node() -> None:
    x = Value(TensorType((2, 3), "i32"))
    builder = Builder(Graph("main", [x]))
    assert builder.convert(x, "i32") is builder.bits(x, "i32") is x
    assert not builder.graph.nodes


def test_make_lets_last_node_define_existing_value() -> None:
    x, result = Value(TensorType((2, 3), "i32")), Value(TensorType((3, 2), "i32"))
    builder = Builder(Graph("main", [x]))
    builder.reshape(x, (3, 2))
    builder.make([result])
    assert builder.graph.nodes[-1].results == [result]
