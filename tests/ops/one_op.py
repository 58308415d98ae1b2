"""Helpers that evaluate one op as a verified node, and build small regions."""

from __future__ import annotations

from typing import Any

import numpy as np

from meshgen.ir.graph import DTYPES, Graph, Node, TensorType, Value, dtype_name
from meshgen.ops.evaluate.evaluator import evaluate_node
from meshgen.ops.types.inference import infer_types, verify_node

BF16 = DTYPES["bf16"]
INTS = ("i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64")


def type_of(array: np.ndarray[Any, Any]) -> TensorType:
    return TensorType(array.shape, dtype_name(array.dtype))


def run(op: str, *args: Any, results: list[TensorType] | None = None, regions: tuple[Graph, ...] = (), **attrs: Any):
    """Infer the result types of an op, verify it and evaluate it. Check that the results have the inferred types."""
    arrays = [np.asarray(a) for a in args]
    types = results or infer_types(op, attrs, [type_of(a) for a in arrays], regions)
    assert types is not None
    node = Node(op, [Value(type_of(a)) for a in arrays], [Value(t) for t in types], attrs, regions=regions)
    assert verify_node(node) == []
    outputs = evaluate_node(node, arrays)
    assert [type_of(f) for f in outputs] == types
    return outputs[0] if len(outputs) == 1 else outputs


def normal(*shape: int, seed: int = 0, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def scalar_region(*ops: str, dtype: str = "f32") -> Graph:
    """Return a region of (a, b) that applies the first op to (a, b) and each next op to (previous result, b)."""
    graph = Graph("region")
    a, b = Value(TensorType((), dtype)), Value(TensorType((), dtype))
    graph.inputs = [a, b]
    for op in ops:
        a = graph.add(op, [a, b], [TensorType((), dtype)]).result
    graph.outputs = [a]
    return graph


def compare_region(direction: str, *dtypes: str) -> Graph:
    graph = Graph("comparator", [Value(TensorType((), d)) for d in dtypes for _ in range(2)])
    node = graph.add("compare", graph.inputs[:2], [TensorType((), "i1")], {"direction": direction, "compare_type": ""})
    graph.outputs = [node.result]
    return graph


def second_region(dtype: str = "f32") -> Graph:
    """Return a region of (a, b) that returns b."""
    graph = Graph("second", [Value(TensorType((), dtype)), Value(TensorType((), dtype))])
    graph.outputs = [graph.inputs[1]]
    return graph
