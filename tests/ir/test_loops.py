"""Tests of trip counts and of the values that regions capture."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.loops import trip_count
from meshgen.ir.regions import captured

INT, TRUTH, F32 = TensorType((), "i32"), TensorType((), "i1"), TensorType((2,), "f32")


def number(graph: Graph, value: int) -> Value:
    return graph.add("constant", [], [INT], {"value": np.array(value, np.int32)}).result


def known_trip_count(start: int, stop: int, step: int, direction: str = "LT", *, grows: int = 0) -> int | None:
    """Return the trip count of a loop that counts from `start` to `stop` and adds `grows` to `stop` in each iteration."""
    graph = Graph("main")
    condition, body = (Graph(name, [Value(INT), Value(INT)]) for name in ("condition", "body"))
    attrs = {"direction": direction, "compare_type": "SIGNED"}
    condition.outputs = [condition.add("compare", condition.inputs, [TRUTH], attrs).result]
    counter, bound = body.inputs
    counted = body.add("add", [counter, number(body, step)], [INT]).result
    body.outputs = [counted, body.add("add", [bound, number(body, grows)], [INT]).result if grows else bound]
    loop = Node("while", [number(graph, start), number(graph, stop)], [Value(INT), Value(INT)], regions=(condition, body))  # fmt: skip
    return trip_count(loop, graph.index.producers)


@pytest.mark.parametrize(
    ("loop", "count"),
    [
        ((0, 5, 1), 5), ((1, 6, 2), 3), ((5, 0, 1), 0), ((0, 5, 1, "LE"), 6),
        ((0, 5, 1, "GT"), None), ((0, 5, -1), None), ((5, 0, -1), None), ((0, 5, 0), None),
    ],
)  # fmt: skip
def test_trip_count_of_counting_loop(loop: tuple[int, int, int], count: int | None) -> None:
    assert known_trip_count(*loop) == count


def test_trip_count_is_unknown_if_bound_changes() -> None:
    assert known_trip_count(0, 5, 1, grows=1) is None


def test_captured_includes_operands_and_forwarded_values() -> None:
    used, forwarded, unused = Value(F32), Value(F32), Value(F32)
    inner = Graph("inner", [], [], [forwarded])
    branch = Node("case", [Value(INT)], [Value(F32)], regions=(inner,))
    region = Graph("way", [], [branch])
    region.outputs = [region.add("add", [used, branch.result], [F32]).result]
    node = Node("if", [unused], [Value(F32)], regions=(region, Graph("other", [], [], [forwarded])))
    assert captured(node) == [branch.operands[0], forwarded, used]
