from __future__ import annotations

import numpy as np
import pytest

from meshgen.codegen.fuse import fuse
from meshgen.codegen.passes import loop_unroll as unrolling
from meshgen.codegen.passes.loop_unroll import loop_unroll
from meshgen.codegen.scheduling.schedule import schedule
from meshgen.ir.attributes.sharding import OverAxes
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.mesh import make_mesh
from meshgen.runtime.simulate import simulate
from meshgen.runtime.validation.checker import check
from meshgen.spec import P
from tests.codegen.programs import costs, f32

INT = TensorType((), "i32")


def number(graph: Graph, value: int) -> Value:
    return graph.add("constant", [], [INT], {"value": np.array(value, np.int32)}).result


def looped(trips: int, *, communicates: bool = True) -> Module:
    """Return a loop of `trips` iterations of x = tanh(all_reduce(x)) * scale, where `scale` is captured."""
    local = f32(3, 2)
    graph = Graph("main", [Value(local, "x"), Value(local, "scale")])
    x, scale = graph.inputs
    condition = Graph("condition", [Value(INT), Value(local)])
    test = condition.add("compare", [condition.inputs[0], number(condition, trips)], [TensorType((), "i1")],
                         {"direction": "LT", "compare_type": "SIGNED"})  # fmt: skip
    condition.outputs = [test.result]
    body = Graph("body", [Value(INT), Value(local)])
    total = body.inputs[1]
    if communicates:
        total = body.add("all_reduce", [total], [local], {"axes": ("x",), "kind": "sum"}).result
    squashed = body.add("tanh", [total], [local]).result
    scaled = body.add("multiply", [squashed, scale], [local]).result
    body.outputs = [body.add("add", [body.inputs[0], number(body, 1)], [INT]).result, scaled]
    start = number(graph, 0)
    loop = Node("while", [start, x], [Value(INT), Value(local)], regions=(condition, body))
    graph.nodes.append(loop)
    graph.outputs = [loop.results[1]]
    return Module(
        make_mesh({"x": 2}), graph, "partition", in_types=[f32(6, 2)] * 2, out_types=[f32(6, 2)],
        in_shardings=[P("x", None)] * 2, out_shardings=[P("x", None)],
    )  # fmt: skip


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_loop_with_collective_is_unrolled(trips):
    module = looped(trips)
    flat = loop_unroll(module)
    ops = [node.op for node in flat.graph.nodes]
    assert "while" not in ops and ops.count("all_reduce") == trips
    args = [np.random.default_rng(n).standard_normal((6, 2)).astype(np.float32) for n in range(2)]
    np.testing.assert_array_equal(simulate(flat, args)[0], simulate(module, args)[0])
    check(schedule(flat, costs=costs()), module.mesh)
    assert [node.op for node in module.graph.nodes] == ["constant", "while"]


def test_short_elementwise_loops_become_one_kernel():
    module = looped(5, communicates=False)
    fused = fuse(loop_unroll(module))
    assert [node.op for node in fused.graph.nodes] == ["kernel"]
    args = [np.random.default_rng(n).standard_normal((6, 2)).astype(np.float32) for n in range(2)]
    np.testing.assert_array_equal(simulate(loop_unroll(module), args)[0], simulate(module, args)[0])


def test_long_and_expensive_loops_are_not_unrolled():
    long = looped(200, communicates=False)
    assert loop_unroll(long) is long
    heavy = looped(5, communicates=False)
    body = next(node for node in heavy.graph.nodes if node.op == "while").regions[1]
    body.outputs[1] = body.add("sort", [body.outputs[1]], [body.outputs[1].type]).result
    assert loop_unroll(heavy) is heavy


def test_loop_with_unknown_trip_count_is_not_unrolled():
    module = looped(5)
    module.graph.nodes[0].op = "process_index"
    module.graph.nodes[0].attrs = OverAxes(axes=("x",))
    assert "while" in [node.op for node in loop_unroll(module).graph.nodes]


def test_loop_is_unrolled_up_to_the_node_limit(monkeypatch):
    module = looped(5)
    body = next(node for node in module.graph.nodes if node.op == "while").regions[1]
    monkeypatch.setattr(unrolling, "MOST_NODES", 5 * len(body.nodes))
    assert "while" not in [node.op for node in loop_unroll(module).graph.nodes]
    monkeypatch.setattr(unrolling, "MOST_NODES", 5 * len(body.nodes) - 1)
    assert "while" in [node.op for node in loop_unroll(module).graph.nodes]


def test_loop_with_collective_in_condition_is_not_unrolled():
    module = looped(5)
    condition = next(node for node in module.graph.nodes if node.op == "while").regions[0]
    condition.add("all_reduce", [condition.inputs[1]], [f32(3, 2)], {"axes": ("x",), "kind": "sum"})
    assert "while" in [node.op for node in loop_unroll(module).graph.nodes]


def branching(inner: Module, depth: int) -> Module:
    """Return a program whose branches both contain the loop of `inner`, nested in `depth` more branches."""
    graph = Graph("main", list(inner.graph.inputs))
    flag = graph.add("constant", [], [TensorType((), "i1")], {"value": np.array(True)}).result
    region = Graph("way", [], list(inner.graph.nodes), list(inner.graph.outputs))
    for _ in range(depth + 1):
        branch = Node("if", [flag], [Value(inner.graph.outputs[0].type)], regions=(region, region))
        region = Graph("way", [], [branch], [branch.results[0]])
    graph.nodes += region.nodes
    graph.outputs = region.outputs
    return Module(inner.mesh, graph, "partition", in_types=inner.in_types, out_types=inner.out_types,
                  in_shardings=inner.in_shardings, out_shardings=inner.out_shardings)  # fmt: skip


@pytest.mark.parametrize("depth", [0, 1])
def test_branch_with_unbounded_loop_is_not_speculated(depth):
    unbounded = looped(5)
    unbounded.graph.nodes[0].op = "process_index"
    unbounded.graph.nodes[0].attrs = OverAxes(axes=("x",))
    assert "select" not in [node.op for node in loop_unroll(branching(unbounded, depth)).graph.nodes]
    assert "select" in [node.op for node in loop_unroll(branching(looped(2), depth)).graph.nodes]
