"""Chains of definitions and uses."""

from __future__ import annotations

import pytest

from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, TensorType, Value
from meshgen.ir.matchers import depends_on, through, values_behind
from meshgen.ir.walks import reachable

F32 = TensorType((4,), "f32")


def chain() -> tuple[Graph, list[Value]]:
    """`x -> reshape -> transpose -> negate -> add with y`, and an unused cosine."""
    x, y = Value(F32), Value(F32)
    builder = Builder(Graph("", [x, y]))
    reshaped = builder.reshape(x, (2, 2))
    turned = builder.reshape(builder.transpose(reshaped, (1, 0)), (4,))
    negated = builder.elementwise("negate", turned)
    added = builder.elementwise("add", negated, y)
    unused = builder.elementwise("cosine", x)
    return builder.graph, [x, y, reshaped, turned, negated, added, unused]


def test_through_follows_first_operands_of_the_given_ops() -> None:
    graph, (x, _, reshaped, turned, negated, *_) = chain()
    producer = graph.index.producers.get
    assert through(turned, producer, {"reshape", "transpose"}) is x
    assert through(turned, producer, {"transpose"}) is turned
    assert through(turned, producer, {"reshape"}) is not reshaped
    assert through(negated, producer, {"reshape", "transpose"}) is negated


def test_values_behind_stops_at_leaves() -> None:
    graph, (x, y, reshaped, turned, negated, added, unused) = chain()
    producer = graph.index.producers.get
    behind = {*values_behind([added], producer)}
    assert {x, y, reshaped, turned, negated, added} < behind and unused not in behind
    assert {*values_behind([added], producer, lambda value: value is turned)} == {added, negated, turned, y}


def test_depends_on_holds_for_the_value_itself() -> None:
    graph, (x, y, _, turned, negated, added, unused) = chain()
    producer = graph.index.producers.get
    assert depends_on([added], {turned}, producer) and depends_on([unused, y], {x}, producer)
    assert depends_on([negated], {negated}, producer)
    assert not depends_on([negated], {y, added}, producer)


def test_values_behind_enters_regions() -> None:
    x, flag = Value(F32), Value(TensorType((), "i1"))
    builder = Builder(Graph("", [x, flag]))
    doubled = builder.elementwise("add", x, x)
    branches = (Graph("", outputs=[doubled]), Graph("", outputs=[x]))
    (chosen,) = builder.append("if", [flag], [F32], {}, branches)
    assert depends_on([chosen], {doubled}, builder.graph.index.producers.get)


def test_reachable_visits_each_item_once_and_no_more_than_asked_for() -> None:
    asked = list[int]()

    def successors(number: int) -> list[int]:
        asked.append(number)
        return [number // 2, number // 3]

    visited = [*reachable([12], successors)]
    assert sorted(visited) == [0, 1, 2, 3, 4, 6, 12] and sorted(asked) == sorted(visited)
    asked.clear()
    assert 12 in reachable([12], successors) and not asked


@pytest.mark.parametrize("length", [1, 100_000])
def test_reachable_does_not_recurse(length: int) -> None:
    assert sum(1 for _ in reachable([length], lambda n: [n - 1] if n else [])) == length + 1
