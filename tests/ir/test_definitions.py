"""Tests of the definition check: every value has one definition, which precedes and encloses its uses."""

from __future__ import annotations

import pytest

from meshgen.errors import Location
from meshgen.ir.definitions import definition_faults, require_defined
from meshgen.ir.graph import Graph, Module, Node, TensorType, Value
from meshgen.mesh import make_mesh

KIND = TensorType((2,), "f32")


def chain() -> Graph:
    """Return a graph of %a = negate %x, %b = tanh %a, and a loop %c. The loop carries %b and adds the captured %a."""
    graph = Graph("main", [Value(KIND, "x")])
    a = graph.add("negate", graph.inputs, [KIND], name="a", loc=Location("p.mlir", 2)).result
    b = graph.add("tanh", [a], [KIND], name="b", loc=Location("p.mlir", 3)).result
    loop = graph.add("while", [b], [KIND], name="c", loc=Location("p.mlir", 4))
    test, body = Graph("test", [Value(KIND, "t")]), Graph("body", [Value(KIND, "u")])
    test.outputs = [test.add("constant", [], [TensorType((), "i1")], name="go").result]
    body.outputs = [body.add("add", [body.inputs[0], a], [KIND], name="v", loc=Location("p.mlir", 5)).result]
    loop.regions = (test, body)
    graph.outputs = [loop.result]
    return graph


def messages(graph: Graph) -> list[str]:
    return [fault.message for fault in definition_faults(graph)]


def test_sound_graph_has_no_definition_faults() -> None:
    assert messages(chain()) == []


def test_region_shared_by_two_nodes_is_accepted() -> None:
    graph = chain()
    twin = graph.add("while", graph.outputs, [KIND])
    twin.regions = graph.nodes[2].regions
    assert messages(graph) == []


def test_use_before_definition_is_reported() -> None:
    graph = chain()
    graph.nodes[0], graph.nodes[1] = graph.nodes[1], graph.nodes[0]
    assert messages(graph) == ["'tanh' reads %a : f32[2] (operand 0), which is not defined before it"]
    del graph.nodes[1]  # the body of the loop reads %a, too
    assert [(f.loc and f.loc.line, "%a" in f.message) for f in definition_faults(graph)] == [(3, True), (5, True)]


def test_use_of_region_value_outside_is_reported() -> None:
    graph = chain()
    graph.add("abs", [graph.nodes[2].regions[1].outputs[0]], [KIND], name="d")
    assert messages(graph) == ["'abs' reads %v : f32[2] (operand 0), which is not defined before it"]


def test_value_defined_twice_is_reported() -> None:
    graph = chain()
    graph.nodes.insert(2, Node("abs", [graph.inputs[0]], graph.nodes[1].results, {}, Location("p.mlir", 9)))
    (fault,) = definition_faults(graph)
    assert fault.message == "%b : f32[2], a result of 'abs', is defined twice" and fault.loc and fault.loc.line == 9
    shared_input = chain()
    shared_input.nodes[2].regions[1].inputs.append(shared_input.inputs[0])
    assert messages(shared_input) == ["%x : f32[2], an input of 'body', is defined twice"]


def test_output_without_definition_is_reported() -> None:
    graph = chain()
    del graph.nodes[2]
    assert messages(graph) == ["output 0 of 'main' is %c : f32[2], which has no definition"]
    within = chain()
    within.nodes[2].regions[1].nodes.clear()
    assert messages(within) == ["output 0 of 'body' is %v : f32[2], which has no definition"]


def test_definitions_in_kernels_and_mesh_parts_are_checked() -> None:
    broken = chain()
    del broken.nodes[0]
    mesh = make_mesh({"x": 2})
    sound = Module(mesh, chain())
    require_defined(sound, "a pass")
    for module in (
        Module(mesh, chain(), kernels={"k": broken}),
        Module(mesh, Graph("main"), parts=[sound, Module(mesh, broken)]),
    ):
        with pytest.raises(
            AssertionError, match=r"a pass made a malformed program: p.mlir:3: error MG0104: 'tanh' reads %a"
        ):
            require_defined(module, "a pass")
