"""Tests of the JSON encoding: round trips are exact, and malformed documents are refused."""

from __future__ import annotations

import copy
import json
import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from meshgen.errors import Location, ModuleError
from meshgen.ir.encode import (
    array_from_json,
    array_to_json,
    attrs_from_json,
    attrs_to_json,
    graph_from_json,
    graph_to_json,
    mesh_from_json,
    mesh_to_json,
    sharding_from_json,
    sharding_to_json,
    type_from_json,
    type_to_json,
)
from meshgen.ir.encode_values import value_from_json, value_to_json
from meshgen.ir.graph import DTYPES, Graph, NodeSharding, TensorType, Value
from meshgen.mesh import Axis, Mesh, make_mesh
from meshgen.spec import P, Sharding, fit

F32 = TensorType((2, 3), "f32")


def json_round_trip(value: Any) -> Any:
    """Return `value` after a round trip through JSON text."""
    return json.loads(json.dumps(value))


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_array_of_every_dtype_round_trips(dtype: str) -> None:
    x = np.arange(6).reshape(2, 3).astype(DTYPES[dtype])
    for array in (x, x[:1, :1], x[:0], x[0, 1], np.full((500, 300), x[0, 1]), x.T):
        decoded = array_from_json(json_round_trip(array_to_json(array)))
        assert decoded.dtype == array.dtype and decoded.shape == array.shape
        assert np.ascontiguousarray(decoded).tobytes() == np.ascontiguousarray(array).tobytes()


def test_splat_array_is_encoded_compactly_and_bit_exactly() -> None:
    document = array_to_json(np.full((1000, 1000), np.float32(-0.0)))
    assert len(json.dumps(document)) < 100 and np.signbit(array_from_json(document)).all()
    assert "base64" in array_to_json(np.float32([0.0, -0.0]))
    nan = np.array([0x7FC00001, 0x7FC00001], np.uint32).view(np.float32)
    assert (array_from_json(array_to_json(nan)).view(np.uint32) == 0x7FC00001).all()


def test_types_shardings_and_meshes_round_trip() -> None:
    for type_ in (F32, TensorType((), "i1"), TensorType((None, 4), "bf16")):
        assert type_from_json(json_round_trip(type_to_json(type_))) == type_
    for sharding in (
        Sharding.replicated(2),
        fit(P("x", ("y:(1)2", "z"), partial={"w": "max"}), 2),
        Sharding((("x",), ()), (), ((1, 2), (0, 0))),
        Sharding((("x",), ()), (), (), ((0, 1, 5), ())),
    ):
        assert sharding_from_json(json_round_trip(sharding_to_json(sharding))) == sharding
    mesh = Mesh((Axis("x", 2, 1e9, 1e-6), Axis("y", None)), "grid")
    assert mesh_from_json(json_round_trip(mesh_to_json(mesh))) == mesh


def test_attributes_of_every_kind_round_trip() -> None:
    attrs = {"a": 1, "b": (1, (2, ()), [3]), "c": "x", "d": None, "e": True, "f": 0.5, "g": math.inf, "h": F32,
             "i": fit(P("x"), 2), "j": {"k": (1,), 2: "two"}, "m": make_mesh({"x": 2}), "why": "ünïcode"}  # fmt: skip
    assert attrs_from_json(json_round_trip(attrs_to_json(attrs))) == attrs
    assert math.isnan(attrs_from_json(json_round_trip(attrs_to_json({"n": math.nan})))["n"])
    decoded = attrs_from_json(json_round_trip(attrs_to_json({"s": ml_dtypes.bfloat16(1.5), "v": np.int32([1, 2])})))
    assert (
        decoded["s"] == ml_dtypes.bfloat16(1.5)
        and decoded["s"].dtype == ml_dtypes.bfloat16
        and decoded["v"].tolist() == [1, 2]
    )


def sample_graph() -> Graph:
    graph = Graph("main", [Value(F32, "x", fit(P("dp"), 2), Location("a.py", 3, 1)), Value(F32)])
    x, y = graph.inputs
    node = graph.add("add", [x, y], [F32], loc=Location("a.py", 4))
    node.sharding = NodeSharding((fit(P("dp"), 2),) * 2, (fit(P("dp"), 2),), (("dp",), ()), ("dp: the argument",))
    body = Graph("body", [Value(F32)])
    body.outputs = [body.add("multiply", [body.inputs[0], y], [F32]).result]  # the region captures y
    choice = graph.add("constant", [], [TensorType((), "i1")], {"value": np.array(True)})
    branch = graph.add("if", [choice.result, node.result], [F32], name="chosen")
    branch.regions = (body, body)
    graph.outputs = [branch.result, x]
    return graph


def test_numpy_integers_in_tuples_become_integers() -> None:
    assert value_to_json((np.int64(1), 0, [np.int32(2)])) == {"tuple": [1, 0, {"list": [2]}]}
    decoded = value_from_json(value_to_json(np.int64(3)))
    assert decoded == 3 and decoded.dtype == np.int64


def test_graphs_round_trip() -> None:
    document = graph_to_json(sample_graph())
    graph = graph_from_json(json_round_trip(document))
    assert graph_to_json(graph) == document
    add, _, branch = graph.nodes
    assert add.operands == graph.inputs and graph.outputs == [branch.result, graph.inputs[0]]
    assert branch.regions[0].nodes[0].operands[1] is graph.inputs[1] and branch.result.name == "chosen"
    assert add.sharding and add.sharding.why == ("dp: the argument",) and add.loc == Location("a.py", 4)


def entry_paths(value: Any) -> list[list[Any]]:
    """Return the paths to all entries of a document."""
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path for key, entry in entries for path in ([key], *([key, *rest] for rest in entry_paths(entry)))]


def test_damaged_document_entry_raises_only_module_error() -> None:
    document = json_round_trip(graph_to_json(sample_graph()))
    for path in entry_paths(document):
        for wrong in (None, -1, 10**30, 1.5, "?", [], {}, [[]], {"tuple": 3}, True):
            broken = copy.deepcopy(document)
            holder = broken
            for key in path[:-1]:
                holder = holder[key]
            holder[path[-1]] = wrong
            try:
                graph_from_json(broken)
            except ModuleError as error:
                assert [d.code for d in error.diagnostics] == ["MG0502"]


@pytest.mark.parametrize("document", [
    {"dtype": "f32", "shape": [10**9, 10**9], "splat": "AAAAAA=="}, {"dtype": "f32", "shape": [2], "base64": "AAAAAA=="},
    {"dtype": "f32", "shape": [1], "base64": "!"}, {"dtype": "f99", "shape": [], "splat": ""}, {"dtype": "i1", "shape": [], "splat": "Bw=="},
    {"dtype": "f32", "shape": [-1], "base64": ""}, {"dtype": "f32", "shape": [0, None], "base64": ""}, {"shape": []}, [], None,
])  # fmt: skip
def test_inconsistent_array_document_is_refused(document: Any) -> None:
    with pytest.raises(ModuleError, match="MG0502"):
        array_from_json(document)


def test_duplicate_axes_and_deep_nesting_are_refused() -> None:
    with pytest.raises(ModuleError, match="declared twice"):
        mesh_from_json({"name": "m", "axes": [mesh_to_json(make_mesh({"x": 2}))["axes"][0]] * 2})
    deep: Any = 1
    for _ in range(200):
        deep = {"tuple": [deep]}
    with pytest.raises(ModuleError, match="nested"):
        attrs_from_json({"a": deep})


def test_use_of_region_value_after_region_is_refused() -> None:
    document = json_round_trip(graph_to_json(sample_graph()))
    inner = document["nodes"][2]["regions"][0]["outputs"][0]
    document["outputs"][0] = inner
    with pytest.raises(ModuleError, match="belongs to a region that has ended"):
        graph_from_json(document)
