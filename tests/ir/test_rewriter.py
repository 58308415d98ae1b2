"""Tests of the rewriter: matched nodes are replaced, and their results keep their identity."""

from __future__ import annotations

from collections.abc import Sequence

from meshgen.errors import Location
from meshgen.ir.builder import Builder
from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.ir.rewriter import rewritten

F32 = TensorType((4,), "f32")


def squares(builder: Builder, node: Node) -> Sequence[Value] | None:
    """Replace `abs` with the square root of the square."""
    if node.op != "abs":
        return None
    (x,) = node.operands
    return [builder.elementwise("sqrt", builder.elementwise("multiply", x, x))]


def program() -> Graph:
    x = Value(F32)
    builder = Builder(Graph("f", [x]))
    size = builder.elementwise("abs", x)
    builder.graph.outputs = [size, builder.elementwise("negate", size)]
    return builder.graph


def test_results_keep_their_identity_for_users_and_outputs() -> None:
    graph = program()
    after = rewritten(graph, squares)
    assert [node.op for node in after.nodes] == ["multiply", "sqrt", "negate"]
    assert after.outputs == graph.outputs and after.nodes[1].results == graph.nodes[0].results
    assert after.nodes[2] is graph.nodes[1]
    assert [node.op for node in graph.nodes] == ["abs", "negate"], "the original graph is unchanged"


def test_graph_without_matches_is_returned_unchanged() -> None:
    graph = program()
    assert rewritten(graph, lambda builder, node: None) is graph


def test_one_node_may_be_replaced_by_several() -> None:
    x = Value(F32)
    results = [Value(F32), Value(F32)]
    graph = Graph("f", [x], [Node("top_k", [x], results, {"k": 4})], [results[1], results[0]])

    def rule(builder: Builder, node: Node) -> Sequence[Value]:
        return [builder.elementwise(op, x) for op in ("sine", "cosine")]

    after = rewritten(graph, rule)
    assert [node.result for node in after.nodes] == results and after.outputs == graph.outputs


def test_replacement_nodes_keep_the_location() -> None:
    graph = program()
    graph.nodes[0].loc = Location("model.mlir", 3)
    assert [node.loc for node in rewritten(graph, squares).nodes] == [graph.nodes[0].loc] * 2 + [None]
