"""Tests of the dims that must have equal sizes according to the operands and results of an op."""

from __future__ import annotations

import itertools

import pytest

from meshgen.ir.graph import Graph, Node, TensorType, Value
from meshgen.mlir.text import parse_text
from meshgen.sizes.size_classes import size_classes_of


def tied(graph: Graph, dims: dict[str, tuple[Value, int]]) -> set[str]:
    """Return the named dims that must have equal sizes, as `a=b`."""
    size_classes = size_classes_of(graph)
    return {
        f"{a}={b}"
        for a, b in itertools.combinations(dims, 2)
        if size_classes.first(dims[a]) == size_classes.first(dims[b])
    }


def open_value(*shape: int | None) -> Value:
    return Value(TensorType(shape, "f32"))


def test_broadcast_ties_only_dims_that_are_not_expanded() -> None:
    x, y = open_value(1, None), open_value(7, 3, None)
    graph = Graph("main", [x], [Node("broadcast_in_dim", [x], [y], {"dims": (0, 2)})], [y])
    dims = {"x0": (x, 0), "x1": (x, 1), "y0": (y, 0), "y1": (y, 1), "y2": (y, 2)}
    assert tied(graph, dims) == {"x1=y2"}


def test_transpose_ties_permuted_dims() -> None:
    x, y = open_value(None, None, None), open_value(None, None, None)
    graph = Graph("main", [x], [Node("transpose", [x], [y], {"perm": (1, 2, 0)})], [y])
    dims = {f"{name}{dim}": (value, dim) for name, value in (("x", x), ("y", y)) for dim in range(3)}
    assert tied(graph, dims) == {"x1=y0", "x2=y1", "x0=y2"}


def test_dynamic_update_slice_does_not_tie_update_dims() -> None:
    x, y, z, update = (open_value(None) for _ in range(4))
    zero = Value(TensorType((), "i32"))
    nodes = [Node("add", [x, y], [z]), Node("dynamic_update_slice", [z, update, zero], [open_value(None)])]
    graph = Graph("main", [x, y, update, zero], nodes, [nodes[1].result])
    dims = {"x": (x, 0), "y": (y, 0), "update": (update, 0), "result": (nodes[1].result, 0)}
    assert tied(graph, dims) == {"x=y", "x=result", "y=result"}


@pytest.mark.parametrize("updated", ["%c", "%x"])
def test_loop_ties_carried_dims(updated: str) -> None:
    text = f"""func.func @main(%n: tensor<i32>, %x: tensor<?xf32>) -> tensor<?xf32> {{
  %r:2 = stablehlo.while(%i = %n, %c = %x) : tensor<i32>, tensor<?xf32>
  cond {{
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %p = stablehlo.compare GT, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
  }} do {{
    %one = stablehlo.constant dense<1> : tensor<i32>
    %j = stablehlo.subtract %i, %one : tensor<i32>
    %d = stablehlo.tanh {updated} : tensor<?xf32>
    stablehlo.return %j, %d : tensor<i32>, tensor<?xf32>
  }}
  func.return %r#1 : tensor<?xf32>
}}"""
    graph = parse_text(text).graph
    (loop,) = (node for node in graph.nodes if node.op == "while")
    body = loop.regions[1]
    dims = {"x": (graph.inputs[1], 0), "c": (body.inputs[1], 0), "d": (body.outputs[1], 0), "r": (loop.results[1], 0)}
    assert len(tied(graph, dims)) == 6
