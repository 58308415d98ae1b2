"""ONNX inputs with a value that is fixed at compile time, and operands that must be fixed at compile time."""

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
from tests.frontend.test_onnx_operators import (  # noqa: E402
    assert_close,
    f32,
    run,
    run_operator,
    run_reference,
    single_operator_model,
)
from tests.onnx_models import Builder, save  # noqa: E402

X, W = f32(2, 3), f32(3, 4)


def by_rate(else_op: str, domain: str = "", outside: str = "Neg", outside_domain: str = "") -> Any:
    """Return a model with a branch: x' @ w if the input `rate` is 16000, else `else_op` of x' and w.

    x' is the result of the operator `outside` on x. With these shapes, `else_op` is invalid.
    """

    def branch(name: str, op: str, domain: str = "") -> Any:
        node = helper.make_node(op, ["n", "w"], [name], name=f"{name}_{op}", domain=domain)
        return helper.make_graph([node], name, [], [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)])

    nodes = [
        helper.make_node(outside, ["x"], ["n"], domain=outside_domain),
        helper.make_node("Equal", ["rate", "high"], ["is_high"]),
        helper.make_node("If", ["is_high"], ["y"], name="choice", then_branch=branch("a", "MatMul"), else_branch=branch("b", else_op, domain)),
    ]  # fmt: skip
    inputs = [("x", TensorProto.FLOAT, [2, 3]), ("w", TensorProto.FLOAT, [3, 4]), ("rate", TensorProto.INT64, [])]
    infos = [helper.make_tensor_value_info(*input_) for input_ in inputs]
    outs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)]
    graph = helper.make_graph(nodes, "g", infos, outs, [numpy_helper.from_array(np.int64(16000), "high")])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("my.ops", 1)])


def test_constant_input_selects_branch_and_disappears() -> None:
    executable = mg.compile(by_rate("Add"), {"d": 2}, args={"rate": 16000}, in_specs={"x": mg.P("d")}, target="cpu")
    assert list(executable.signature.nodes) == ["x", "w"]
    assert_close([executable(X, W)], [-X @ W])


@pytest.mark.parametrize("other, domain, fault", [
    ("Add", "", "MG0104: else_branch of 'choice': Add 'b_Add'"), ("Fancy", "my.ops", "MG0103: else_branch of 'choice': operator my.ops.Fancy is not supported"),
])  # fmt: skip
def test_invalid_branch_is_reported_with_hint(other: str, domain: str, fault: str) -> None:
    model = by_rate(other, domain)
    with pytest.raises(mg.MeshgenError, match=fault) as error:
        read(model, {"d": 2})
    assert (
        "input 'rate' has a value: args={'rate': mg.constant(...)}, on the command line --constant rate=VALUE"
        in str(error.value)
    )
    assert [value.name for value in read(model, {"d": 2}, args={"rate": 16000})[0].graph.inputs] == ["x", "w"]
    with pytest.raises(mg.MeshgenError, match="b_"):
        read(model, {"d": 2}, args={"rate": 8000})


def test_unsupported_operators_in_and_outside_branches_are_listed() -> None:
    with pytest.raises(mg.MeshgenError) as error:
        read(by_rate("Fancy", "my.ops", "Odd", "my.ops"), {"d": 2}, args={"rate": 16000})
    assert "my.ops.Fancy" in str(error.value) and "my.ops.Odd" in str(error.value)


def test_runtime_shape_operand_is_reported_with_hint() -> None:
    b = Builder()
    y = b("Reshape", "x", b("Add", "shape", b.ints(1, 0)))
    model = b.model([("x", "f32", [2, 3]), ("shape", "i64", [2])], [(y, "f32")])
    with pytest.raises(mg.MeshgenError, match=r"MG0104: Reshape .*decides shapes.*\n.*--constant shape=VALUE"):
        read(model, {"d": 2})
    for shape in (mg.constant([2, -1]), mg.constant(np.array([2, -1], np.int32))):
        assert str(read(model, {"d": 2}, args={"shape": shape})[0].graph.outputs[0].type) == "f32[3,2]"


def test_invalid_constant_is_rejected() -> None:
    model = by_rate("Add")
    for rate, text in (
        (0.5, "0.5 is not a value of 'rate', which is of type i64"),
        (2**70, "is not an array|not a value"),
        (mg.constant([1, 2]), "rank 0"),
    ):
        with pytest.raises(mg.MeshgenError, match=f"MG0001: .*{text}"):
            read(model, {"d": 2}, args={"rate": rate})
    with pytest.raises(mg.MeshgenError, match="MG0001: 'no' is not an array of numbers"):
        mg.constant("no")
    with pytest.raises(mg.MeshgenError, match="MG0001: 'x' is a constant, which only inputs of ONNX models may be"):
        read(lambda x: x, {"d": 2}, args={"x": mg.constant(3)})


def test_scalar_is_accepted_for_tensor_of_one_element() -> None:
    model, _ = single_operator_model("Pow", X, np.array([2], np.int64))
    (node,) = (node for node in read(model, {"d": 2}, args={"a1": 2})[0].graph.nodes if node.op == "constant")
    assert node.attrs.value.ravel().tolist() == [2]


def test_constant_option_binds_model_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(tmp_path / "rate.npy", np.int64(16000))
    path = save(by_rate("Add"), tmp_path / "rate.onnx")
    command = ["check", path, "--mesh", "d=2", "--spec", "x=d", "--constant"]
    assert main([*command, "rate=16000"]) == 0 and main([*command, f"rate=@{tmp_path / 'rate.npy'}"]) == 0
    assert main([*command, "rate=true,0"]) == 2 and main([*command, "rate=high"]) == 2
    assert "'rate=high' is not NAME=VALUE" in capsys.readouterr().err
    assert main([*command, "rate=1", "--constant", "rate=2"]) == 2
    assert "two values of 'rate' are given" in capsys.readouterr().err


# Operands that do not affect shapes may be runtime values
# --------------------------------------------------------------

ROWS = f32(4, 3, 2)


def both(op: str, *arrays: Any, operand_indices: tuple[int, ...], **options: Any) -> list[Any]:
    """Return the results of an operator whose operands are all runtime values. Require the same results if the operands
    at `operand_indices` are constants.
    """
    results = run_operator(op, *arrays, **options)
    assert_close(results, run_operator(op, *arrays, known=operand_indices, **options), 1e-6)
    return results


@pytest.mark.parametrize("time, batch", [(0, 1), (1, 0)])
def test_reverse_sequence_accepts_runtime_lengths(time: int, batch: int) -> None:
    x = f32(4, 3, 2) if time == 0 else f32(3, 4, 2)
    lengths = np.array([1, 4, 2])
    results = both("ReverseSequence", x, lengths, operand_indices=(1,), time_axis=time, batch_axis=batch)
    assert_close(results, run_reference("ReverseSequence", x, lengths, time_axis=time, batch_axis=batch))


@pytest.mark.parametrize("axis", [0, 2, -1, -3])
def test_cumsum_accepts_runtime_axis(axis: int) -> None:
    for op, opset in (("CumSum", 14), ("CumProd", 26)):
        results = both(op, ROWS, np.array(axis), operand_indices=(1,), opset=opset, exclusive=1, reverse=1)
        assert_close(results, run_reference(op, ROWS, np.array(axis), opset=opset, exclusive=1, reverse=1))


@pytest.mark.parametrize("axis", [0, -2])
def test_full_dft_accepts_runtime_axis(axis: int) -> None:
    results = both("DFT", f32(3, 4, 2), None, np.array(axis), operand_indices=(2,), opset=20)
    assert results[0].shape == (3, 4, 2)
    with pytest.raises(mg.MeshgenError, match="'axis' decides shapes, but is data here"):
        run_operator("DFT", f32(3, 4, 1), None, np.array(axis), opset=20, onesided=1)


@pytest.mark.parametrize("k", [-1, 0, 2])
def test_trilu_accepts_runtime_diagonal(k: int) -> None:
    for upper, function in ((0, np.tril), (1, np.triu)):
        assert_close(both("Trilu", ROWS, np.array(k), operand_indices=(1,), upper=upper), [function(ROWS, k)])


def test_dropout_accepts_runtime_ratio() -> None:
    assert_close(both("Dropout", X, np.float32(0.5), operand_indices=(1,)), [X])
    assert_close(run_operator("Dropout", X, np.float32(0.5), np.array(False), known=(2,)), [X])
    with pytest.raises(mg.MeshgenError, match="'training_mode' decides whether elements are dropped, but is data here"):
        run_operator("Dropout", X, np.float32(0.5), np.array(False))


@pytest.mark.parametrize("opset, operands", [(10, ("x", "s")), (13, ("x", "", "s")), (18, ("x", "part", "s"))])
def test_resize_accepts_float_initializer_as_scales(opset: int, operands: tuple[str, ...]) -> None:
    initializers = {"s": np.array([1, 1, 2, 1.5], np.float32), "part": np.zeros(0, np.float32)}
    node = helper.make_node("Resize", operands, ["y"], mode="nearest")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in (("x", [1, 1, 2, 4]), ("y", None))]  # fmt: skip
    graph = helper.make_graph([node], "g", infos[:1], infos[1:], [numpy_helper.from_array(array, name) for name, array in initializers.items()])  # fmt: skip
    executable = mg.compile(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), {"d": 2}, target="cpu"
    )
    image = np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4)
    assert executable(image).shape == (1, 1, 4, 6) and np.array_equal(
        executable(image)[0, 0, ::2, [0, -1]], image[0, 0, :, [0, -1]]
    )


def test_resize_accepts_runtime_roi() -> None:
    image, roi, sizes = f32(1, 1, 6, 8), np.array([0, 0, 0.2, 0.1, 1, 1, 0.7, 1.2], np.float32), np.array([1, 1, 4, 5])
    crop = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 7.0}
    for options in (
        {"mode": "nearest"},
        {"mode": "linear"},
        {"mode": "cubic", "exclude_outside": 1},
        {"mode": "cubic", "antialias": 1},
    ):
        resize_options: dict[str, Any] = crop | options
        results = run_operator("Resize", image, roi, None, sizes, known=(3,), **resize_options)
        assert_close(results, run_reference("Resize", image, roi, None, sizes, known=(3,), **resize_options))
        assert_close(results, run_operator("Resize", image, roi, None, sizes, known=(1, 3), **resize_options), 1e-6)
    assert run_operator("Resize", image, roi, None, sizes, known=(3,), mode="linear")[0].shape == (
        1,
        1,
        4,
        5,
    )  # in this mode the operand `roi` has no effect


def test_sequence_at_accepts_runtime_position() -> None:
    b = Builder()
    y = b("SequenceAt", b("SequenceConstruct", "x", b("Neg", "x")), "n")
    model = b.model([("x", "f32", [2, 3]), ("n", "i64", [])], [(y, "f32")])
    for position, expected in ((0, X), (1, -X), (-1, -X)):
        assert_close(run(model, X, np.int64(position)), [expected])
