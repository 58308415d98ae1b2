"""Tests of the streams of launches: collectives use two streams if the links of the mesh differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from meshgen.codegen.scheduling.schedule import Steps, schedule
from meshgen.errors import ScheduleError
from meshgen.ir.graph import Graph, Module, Value
from meshgen.machine.profiles import MACHINES
from meshgen.mesh import Mesh, make_mesh
from meshgen.runtime.plan import COMMUNICATION, COMPUTE, NETWORK
from meshgen.runtime.validation.checker import check
from meshgen.spec import P
from tests.codegen.programs import body, costs, f32, module
from tests.programs import HOSTS

LOCAL = f32(4, 4)


def gradients(mesh: Mesh, calls: Sequence[tuple[str, tuple[str, ...]]]) -> Module:
    """Return a chain of tanh ops. A collective reduces or moves each result: `calls` lists its op and axes."""
    graph = Graph("main", [Value(LOCAL, "h")])
    h, results = graph.inputs[0], list[Value]()
    for op, axes in calls:
        h = graph.add("kernel", [h], [LOCAL], {"kernel": "tanh"}).result
        attrs = {"axes": axes, "kind": "sum"} if op == "all_reduce" else {"axes": axes, "split_dim": 0, "concat_dim": 1}
        results.append(graph.add(op, [h], [LOCAL if op == "all_reduce" else f32(2, 8)], attrs).result)
    graph.outputs = [h, *results]
    kernels = {"tanh": body("tanh", "tanh", [LOCAL], LOCAL)}
    outs = [(4, 4), *(value.type.sizes for value in results)]
    return module(graph, kernels, mesh, [P(None, None)], [P(None, None)] * len(outs), [(4, 4)], outs)


def streams(program: Module) -> list[int]:
    """Return the streams of the collectives in program order."""
    assembled = Steps(program, costs()).program
    return [task.stream for task, name in zip(assembled.tasks, assembled.names, strict=True) if not name]


@pytest.mark.parametrize("mesh, expected", [
    (HOSTS, [NETWORK, COMMUNICATION, NETWORK]),
    (replace(make_mesh({"host": 2, "gpu": 8}), machine=MACHINES["dgx-h100"]), [NETWORK, COMMUNICATION, NETWORK]),
    # all four devices are in one host
    (replace(make_mesh({"host": 2, "gpu": 2}), machine=MACHINES["dgx-h100"]), [COMMUNICATION] * 3),
    (make_mesh({"host": 2, "gpu": 2}), [COMMUNICATION] * 3),
])  # fmt: skip
def test_collectives_over_slower_links_use_the_network_stream(mesh: Mesh, expected: list[int]) -> None:
    calls = [("all_reduce", ("host",)), ("all_reduce", ("gpu",)), ("all_reduce", ("host", "gpu"))]
    assert streams(gradients(mesh, calls)) == expected


def test_collectives_over_equal_links_use_one_stream() -> None:
    assert streams(gradients(HOSTS, [("all_reduce", ("host",))] * 2)) == [COMMUNICATION] * 2


def test_point_to_point_messages_keep_one_stream() -> None:
    """Check an all_to_all along an inner dim: its blocks are sent separately over the communicator of all ranks."""
    calls = [("all_to_all", ("host",)), ("all_reduce", ("gpu",))]
    assert streams(gradients(HOSTS, calls)) == [COMMUNICATION] * 2


def test_both_communication_streams_overlap() -> None:
    calls = [("all_reduce", ("host",)), ("all_reduce", ("gpu",))] * 2
    program = gradients(HOSTS, calls)
    plan = schedule(program, costs=costs())
    check(plan, program.mesh)
    # Two kernels of 1 s, then two collectives of 3 s in sequence take 8 s. With one communication stream, the step
    # would take 13 s.
    assert plan.step_seconds == pytest.approx(8.0)
    assert sorted(exposure.hidden for exposure in plan.exposures) == pytest.approx([0.0, 0.0, 2.0, 3.0])


@pytest.mark.parametrize("stream", [COMMUNICATION, NETWORK])
def test_checker_rejects_unordered_collectives(stream: int) -> None:
    """Check a forged plan that moves a collective to the kernels' stream without ordering it."""
    program = gradients(HOSTS, [("all_reduce", ("host",)), ("all_reduce", ("gpu",))])
    plan = schedule(program, costs=costs())
    last = max(n for n, item in enumerate(plan.items) if item.is_collective)
    first = next(n for n, item in enumerate(plan.items) if item.is_collective)
    items = list(plan.items)
    items[first], items[last] = replace(items[first], stream=stream), replace(items[last], stream=COMPUTE)
    with pytest.raises(ScheduleError, match="MG0401: nothing orders collective"):
        check(replace(plan, items=tuple(items)), program.mesh)
