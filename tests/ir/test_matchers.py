"""Tests of queries on def-use chains."""

from __future__ import annotations

import pytest

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ir.matchers import depends_on, through, transitive_operands
from meshgen.ir.walks import reachable

F32 = TensorType((4,), "f32")


def chain() -> tuple[Graph, list[Value]]:
    """Return a graph and its values: x -> reshape -> transpose -> negate -> add with y, and an unused cosine."""
    x, y = Value(F32), Value(F32)
    builder = Builder(Graph("", [x, y]))
    reshaped = builder.reshape(x, (2, 2))
    transposed = builder.reshape(builder.transpose(reshaped, (1, 0)), (4,))
    negated = builder.elementwise("negate", transposed)
    added = builder.elementwise("add", negated, y)
    unused = builder.elementwise("cosine", x)
    return builder.graph, [x, y, reshaped, transposed, negated, added, unused]


def test_through_follows_first_operands_of_the_given_ops() -> None:
    graph, (x, _, reshaped, transposed, negated, *_) = chain()
    producer = graph.index.producers.get
    assert through(transposed, producer, {"reshape", "transpose"}) is x
    assert through(transposed, producer, {"transpose"}) is transposed
    assert through(transposed, producer, {"reshape"}) is not reshaped
    assert through(negated, producer, {"reshape", "transpose"}) is negated


def test_transitive_operands_stop_at_leaves() -> None:
    graph, (x, y, reshaped, transposed, negated, added, unused) = chain()
    producer = graph.index.producers.get
    operands = {*transitive_operands([added], producer)}
    assert {x, y, reshaped, transposed, negated, added} < operands and unused not in operands
    assert {*transitive_operands([added], producer, lambda value: value is transposed)} == {
        added,
        negated,
        transposed,
        y,
    }


def test_depends_on_holds_for_the_value_itself() -> None:
    graph, (x, y, _, transposed, negated, added, unused) = chain()
    producer = graph.index.producers.get
    assert depends_on([added], {transposed}, producer) and depends_on([unused, y], {x}, producer)
    assert depends_on([negated], {negated}, producer)
    assert not depends_on([negated], {y, added}, producer)


def test_transitive_operands_enter_regions() -> None:
    x, flag = Value(F32), Value(TensorType((), "i1"))
    builder = Builder(Graph("", [x, flag]))
    doubled = builder.elementwise("add", x, x)
    branches = (Graph("", outputs=[doubled]), Graph("", outputs=[x]))
    (chosen,) = builder.append("if", [flag], [F32], {}, branches)
    assert depends_on([chosen], {doubled}, builder.graph.index.producers.get)


def test_reachable_visits_each_item_once_and_lazily() -> None:
    expanded = list[int]()

    def successors(number: int) -> list[int]:
        expanded.append(number)
        return [number // 2, number // 3]

    visited = [*reachable([12], successors)]
    assert sorted(visited) == [0, 1, 2, 3, 4, 6, 12] and sorted(expanded) == sorted(visited)
    expanded.clear()
    assert 12 in reachable([12], successors) and not expanded


@pytest.mark.parametrize("length", [1, 100_000])
def test_reachable_does_not_recurse(length: int) -> None:
    assert sum(1 for _ in reachable([length], lambda n: [n - 1] if n else [])) == length + 1
