"""Tests of matched sends and receives: a receive reads the value of its send and stores its destination ranks."""

from __future__ import annotations

import pytest

from meshgen.codegen.scheduling.messages import match_transfers
from meshgen.codegen.scheduling.schedule import schedule
from meshgen.errors import CodegenError, ScheduleError
from meshgen.ir.graph import Graph, Node, Value
from meshgen.mesh import make_mesh
from meshgen.runtime.plan import Schedule
from meshgen.runtime.validation.checker import check
from meshgen.spec import P
from tests.codegen.programs import costs, f32, module
from tests.runtime.test_checker import with_item


def message(op: str, value: Value, axes: tuple[str, ...] = ("x",), **peer: int) -> Node:
    return Node(op, [value], [Value(value.type)], {"axes": axes, **peer})


def test_transfers_are_matched_in_fifo_order_per_axes() -> None:
    a, b = Value(f32(4)), Value(f32(4))
    first, second = message("send", a, destination=1), message("send", b, destination=2)
    other = message("send", a, ("y",), destination=3)
    nodes = [first, other, second, *(message("recv", a, source=0) for _ in range(2)), message("recv", a, ("y",))]
    matched = match_transfers(nodes)
    assert [n.operands[0] for n in matched[3:]] == [first.result, second.result, other.result]
    assert [n.attrs.destination for n in matched[3:]] == [1, 2, 3]
    assert matched[:3] == nodes[:3] and [n.results for n in matched] == [n.results for n in nodes]


def test_receive_without_matching_send_is_rejected() -> None:
    a, wide = Value(f32(4)), Value(f32(8))
    with pytest.raises(CodegenError, match=r"MG0301.*no matching send over x of f32\[4\]"):
        match_transfers([message("recv", a, source=0), message("send", a, destination=1)])
    with pytest.raises(CodegenError, match="MG0301"):
        match_transfers([message("send", wide, destination=1), message("recv", a, source=0)])


def planned() -> Schedule:
    graph = Graph("main", [Value(f32(4), "a"), Value(f32(4), "b")])
    a, b = graph.inputs
    graph.nodes.append(message("send", a, destination=1))
    graph.nodes.append(message("recv", b, source=0))
    graph.outputs = [graph.nodes[-1].result]
    specs = [P("x"), P("x")]
    return schedule(module(graph, {}, make_mesh({"x": 2}), specs, specs[:1], [(8,), (8,)], [(8,)]), costs=costs())


def test_planned_receive_stores_its_destination() -> None:
    plan = planned()
    check(plan, make_mesh({"x": 2}))
    send, recv = plan.items
    assert recv.inputs == send.outputs and recv.attrs.destination == 1
    with pytest.raises(ScheduleError, match=r"MG0402.*'recv' has no receivers"):
        check(with_item(plan, 1, attrs={"axes": ("x",), "source": 0}), make_mesh({"x": 2}))
