"""Inputs of ONNX models that have a value at compile time, and operands that need one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import meshgen as mg  # noqa: E402
from meshgen.api import read  # noqa: E402
from meshgen.cli import main  # noqa: E402
from tests.frontend.test_onnx_operators import f32, one, same  # noqa: E402
from tests.onnx_models import Builder, save  # noqa: E402

X, W = f32(2, 3), f32(3, 4)


def by_rate(other: str, domain: str = "", outside: str = "Neg", outside_domain: str = "") -> Any:
    """x @ w for a rate of 16000, else an operator that does not read these shapes; `outside` comes before."""

    def branch(name: str, op: str, domain: str = "") -> Any:
        node = helper.make_node(op, ["n", "w"], [name], name=f"{name}_{op}", domain=domain)
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])

    nodes = [
        helper.make_node(outside, ["x"], ["n"], domain=outside_domain),
        helper.make_node("Equal", ["rate", "high"], ["is_high"]),
        helper.make_node("If", ["is_high"], ["y"], name="choice", then_branch=branch("a", "MatMul"), else_branch=branch("b", other, domain)),
    ]  # fmt: skip
    inputs = [("x", TensorProto.FLOAT, [2, 3]), ("w", TensorProto.FLOAT, [3, 4]), ("rate", TensorProto.INT64, [])]
    infos = [helper.make_tensor_value_info(*each) for each in inputs]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", infos, outs, [numpy_helper.from_array(np.int64(16000), "high")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("my.ops", 1)])


def test_constant_input_decides_branches_and_is_no_input() -> None:
    executable = mg.compile(by_rate("Add"), {"d": 2}, args={"rate": 16000}, in_specs={"x": mg.P("d")}, target="cpu")
    assert list(executable.signature.nodes) == ["x", "w"]
    same([executable(X, W)], [-X @ W])


@pytest.mark.parametrize("other, domain, fault", [
    ("Add", "", "MG0104: else_branch of 'choice': Add 'b_Add'"), ("Fancy", "my.ops", "MG0103: else_branch of 'choice': operator my.ops.Fancy is not supported"),
])  # fmt: skip
def test_branch_that_cannot_be_read_is_named_with_the_remedy(other: str, domain: str, fault: str) -> None:
    model = by_rate(other, domain)
    with pytest.raises(mg.MeshgenError, match=fault) as found:
        read(model, {"d": 2})
    assert (
        "input 'rate' has a value: args={'rate': mg.constant(...)}, on the command line --constant rate=VALUE"
        in str(found.value)
    )
    assert [value.name for value in read(model, {"d": 2}, args={"rate": 16000})[0].graph.inputs] == ["x", "w"]
    with pytest.raises(mg.MeshgenError, match="b_"):
        read(model, {"d": 2}, args={"rate": 8000})


def test_all_unsupported_operators_are_listed_where_one_is_outside_of_branches() -> None:
    with pytest.raises(mg.MeshgenError) as found:
        read(by_rate("Fancy", "my.ops", "Odd", "my.ops"), {"d": 2}, args={"rate": 16000})
    assert "my.ops.Fancy" in str(found.value) and "my.ops.Odd" in str(found.value)


def test_operand_that_decides_shapes_is_named_with_the_remedy() -> None:
    b = Builder()
    y = b("Reshape", "x", b("Add", "shape", b.ints(1, 0)))
    model = b.model([("x", "f32", [2, 3]), ("shape", "i64", [2])], [(y, "f32")])
    with pytest.raises(mg.MeshgenError, match=r"MG0104: Reshape .*decides shapes.*\n.*--constant shape=VALUE"):
        read(model, {"d": 2})
    for given in (mg.constant([2, -1]), mg.constant(np.array([2, -1], np.int32))):
        assert str(read(model, {"d": 2}, args={"shape": given})[0].graph.outputs[0].type) == "f32[3,2]"


def test_constants_that_do_not_fit_are_refused() -> None:
    model = by_rate("Add")
    for given, text in (
        (0.5, "0.5 is not a value of 'rate', which is of type i64"),
        (2**70, "is not an array|not a value"),
        (mg.constant([1, 2]), "rank 0"),
    ):
        with pytest.raises(mg.MeshgenError, match=f"MG0001: .*{text}"):
            read(model, {"d": 2}, args={"rate": given})
    with pytest.raises(mg.MeshgenError, match="MG0001: 'no' is not an array of numbers"):
        mg.constant("no")
    with pytest.raises(mg.MeshgenError, match="MG0001: 'x' is a constant, which only inputs of ONNX models may be"):
        read(lambda x: x, {"d": 2}, args={"x": mg.constant(3)})


def test_number_is_the_value_of_a_tensor_of_one_element() -> None:
    model, _ = one("Pow", X, np.array([2], np.int64))
    (node,) = (node for node in read(model, {"d": 2}, args={"a1": 2})[0].graph.nodes if node.op == "constant")
    assert node.attrs.value.ravel().tolist() == [2]


def test_command_line_gives_constants(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "rate.npy", np.int64(16000))
    path = save(by_rate("Add"), tmp_path / "rate.onnx")
    words = ["check", path, "--mesh", "d=2", "--spec", "x=d", "--constant"]
    assert main([*words, "rate=16000"]) == 0 and main([*words, f"rate=@{tmp_path / 'rate.npy'}"]) == 0
    assert main([*words, "rate=true,0"]) == 2 and main([*words, "rate=high"]) == 2
    assert "'rate=high' is not NAME=VALUE" in capsys.readouterr().err
