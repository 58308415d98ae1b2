"""Declared types in ONNX models. If they contradict the computed types or the standard, the model is rejected with the
name of the node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper  # noqa: E402

from meshgen.api import read  # noqa: E402
from meshgen.errors import MeshgenError  # noqa: E402
from tests.frontend.test_onnx_operators import assert_close, f32, run, run_operator  # noqa: E402
from tests.onnx_models import Builder  # noqa: E402


def sums() -> Any:
    """Return a model that computes (x + x) + w with a weight w."""
    b = Builder("/net")
    y = b("Add", b("Add", "x", "x"), b.weight("w", 2, 3))
    return b.model([("x", "f32", [2, 3])], [(y, "f32")])


def info(name: str, kind: int, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def output(kind: int, shape: Any) -> Callable[[Any], None]:
    return lambda graph: graph.output[0].CopyFrom(info(graph.output[0].name, kind, shape))


def beside(name: str, kind: int, shape: Any) -> Callable[[Any], None]:
    return lambda graph: graph.value_info.append(info(name, kind, shape))


FLOAT, DOUBLE, INT = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32


@pytest.mark.parametrize("change, text", [
    (output(INT, None), r"Add '/net/Add_1': 'add_1' is f32\[2,3\], but the model declares it as i32\[...\]"),
    (output(FLOAT, [2, 2]), r"'add_1' is f32\[2,3\], but the model declares it as f32\[2,2\]"),
    (output(FLOAT, [2, 3, 1]), "f32.2,3,1."),
    (beside("add_0", DOUBLE, [2, 3]), r"Add '/net/Add': 'add_0' is f32\[2,3\], but the model declares it as f64\[2,3\]"),
    (beside("add_0", FLOAT, ["n", 4]), r"'add_0' is f32\[2,3\], but the model declares it as f32\[\?,4\]"),
    (beside("w", FLOAT, [3, 2]), r"'w' is f32\[2,3\], but the model declares it as f32\[3,2\]"),
    (lambda graph: graph.input.append(info("w", DOUBLE, [2, 3])), "'w' is f32.2,3., but the model declares it as f64"),
])  # fmt: skip
def test_declared_type_other_than_computed_is_rejected(change: Callable[[Any], None], text: str) -> None:
    model = sums()
    change(model.graph)
    with pytest.raises(MeshgenError, match=f"MG0104: .*{text}"):
        read(model, {"d": 2})


@pytest.mark.parametrize("change", [
    output(FLOAT, None), output(FLOAT, ["a", "b"]), output(FLOAT, [-1, 3]), beside("add_0", FLOAT, [2, None]), beside("add_0", TensorProto.UNDEFINED, [2, 3]),
])  # fmt: skip
def test_open_declared_size_accepts_any_size(change: Callable[[Any], None]) -> None:
    model = sums()
    change(model.graph)
    assert str(read(model, {"d": 2})[0].graph.outputs[0].type) == "f32[2,3]"


def test_declared_types_inside_branches_are_checked() -> None:
    def branch(name: str, kind: int) -> Any:
        return helper.make_graph([helper.make_node("Neg", ["x"], [name], name=name)], name, [], [info(name, kind, [2])])

    node = helper.make_node("If", ["c"], ["y"], name="choice", then_branch=branch("a", FLOAT), else_branch=branch("b", INT))  # fmt: skip
    graph = helper.make_graph([node], "g", [info("x", FLOAT, [2]), info("c", TensorProto.BOOL, [])], [info("y", FLOAT, [2])])  # fmt: skip
    with pytest.raises(MeshgenError, match=r"Neg 'b': 'b' is f32.2., but the model declares it as i32"):
        read(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), {"d": 2})


def test_operand_types_outside_schema_are_rejected() -> None:
    x = f32(2, 3)
    for op, arrays, text in (
        ("Add", (x, np.arange(3)), "operands 1 and 2 must have one element type, but have f32 and i64"),
        ("Concat", (x, x.astype(np.uint8)), "operands 1 and 2 must have one element type"),
        ("Gather", (x, x), "operand 2 is of type f32, but may be of i32, i64 only"),
        ("And", (x, x), "operand 1 is of type f32, but may be of i1 only"),
    ):
        with pytest.raises(MeshgenError, match=f"MG0104: {op} .*{text}"):
            run_operator(op, *arrays, **({"axis": 0} if op == "Concat" else {}))
    assert_close(run_operator("Pow", x, np.arange(3)), [x ** np.arange(3)])


def test_attributes_that_contradict_weights_are_rejected() -> None:
    image, kernel = f32(1, 2, 6, 6), f32(3, 2, 3, 3)
    for op, weights in (("Conv", kernel), ("ConvTranspose", f32(2, 3, 3, 3))):
        with pytest.raises(MeshgenError, match=r"kernel_shape is \[5, 5\], but the weights have a kernel of \[3, 3\]"):
            run_operator(op, image, weights, kernel_shape=[5, 5])
        with pytest.raises(MeshgenError, match="strides has 1 numbers"):
            run_operator(op, image, weights, strides=[1])
    weights = f32(1, 12, 4), f32(1, 12, 3)
    with pytest.raises(MeshgenError, match="hidden_size is 6, but the weights of the state have 3 columns"):
        run_operator("LSTM", f32(5, 2, 4), *weights, hidden_size=6)
    with pytest.raises(MeshgenError, match="1 directions, but direction is 'bidirectional'"):
        run_operator("LSTM", f32(5, 2, 4), *weights, hidden_size=3, direction="bidirectional")


def test_groups_that_do_not_divide_features_are_rejected() -> None:
    for groups in (0, 3):
        with pytest.raises(MeshgenError, match=f"{groups} groups do not divide 4 features"):
            run_operator("GroupNormalization", f32(2, 4, 3), f32(4), f32(4), num_groups=groups)


def test_too_many_results_are_rejected() -> None:
    b = Builder()
    names = b("Split", "x", b.ints(1, 1), results=3)
    with pytest.raises(MeshgenError, match="3 results are used, but only the first 2"):
        run(b.model([("x", "f32", [2])], [(name, "f32") for name in names]), f32(2))
