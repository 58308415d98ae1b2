"""How often loops run, and what regions use from around them."""

from __future__ import annotations

import numpy as np
import pytest

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.loops import trip_count
from meshgen.ir.regions import captured

INT, TRUTH, F32 = TensorType((), "i32"), TensorType((), "i1"), TensorType((2,), "f32")


def number(graph: Graph, value: int) -> Value:
    return graph.add("constant", [], [INT], {"value": np.array(value, np.int32)}).result


def trips(start: int, stop: int, step: int, direction: str = "LT", *, grows: int = 0) -> int | None:
    """Of a loop that carries a counter and its bound, to which `grows` is added in every trip."""
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
def test_trips_of_loops_that_count_up(loop: tuple[int, int, int], count: int | None) -> None:
    assert trips(*loop) == count


def test_a_loop_whose_bound_changes_has_no_known_trips() -> None:
    assert trips(0, 5, 1, grows=1) is None


def test_regions_use_what_they_compute_with_and_what_they_hand_on() -> None:
    used, handed, unused = Value(F32), Value(F32), Value(F32)
    inner = Graph("inner", [], [], [handed])
    branch = Node("case", [Value(INT)], [Value(F32)], regions=(inner,))
    way = Graph("way", [], [branch])
    way.outputs = [way.add("add", [used, branch.result], [F32]).result]
    node = Node("if", [unused], [Value(F32)], regions=(way, Graph("other", [], [], [handed])))
    assert captured(node) == [branch.operands[0], handed, used]
