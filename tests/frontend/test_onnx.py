"""ONNX models as programs: names, weights, sizes, locations and errors."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

import meshgen as mg  # noqa: E402
from meshgen.api import plan, read  # noqa: E402
from meshgen.cli import main  # noqa: E402
from meshgen.ops.evaluate.evaluator import evaluate  # noqa: E402
from tests import onnx_models  # noqa: E402
from tests.onnx_models import Builder, save  # noqa: E402

X = np.random.default_rng(3).standard_normal((8, 32)).astype(np.float32)
SPECS = {"x": mg.P("dp"), "*.up.weight": mg.P("tp"), "*.up.bias": mg.P("tp"), "*.down.weight": mg.P(None, "tp")}
MESH = {"dp": 2, "tp": 2}


def reference_result(model: Any) -> Any:
    return onnx_models.reference(model, X)[0]


def error_text(program: Any, **options: Any) -> str:
    with pytest.raises(mg.MeshgenError) as error:
        read(program, {"d": 2}, **options)
    assert all(diagnostic.code in str(error.value) for diagnostic in error.value.diagnostics)
    return str(error.value)


# Names, weights, locations --------------------------------------------------------------------------------------------


def test_initializers_become_named_weights() -> None:
    model = onnx_models.mlp()
    executable = plan(model, MESH, args={"batch": 8}, in_specs=SPECS, target="cpu")
    assert list(executable.signature.nodes) == ["x", *(f"layers.0.{suffix}" for suffix in ("up.weight", "up.bias", "down.weight", "down.bias"))]  # fmt: skip
    assert executable.comms.counts == {"all_reduce": 1}
    np.testing.assert_allclose(executable(X), reference_result(model), rtol=1e-5, atol=1e-5)
    zero = np.zeros((32,), np.float32)
    result = executable(X, **{"layers.0.down.bias": zero})
    np.testing.assert_allclose(
        result, reference_result(model) - executable.signature.weights["layers.0.down.bias"], rtol=1e-4, atol=1e-5
    )


def test_onnx_weights_are_stored_in_module_or_passed_to_call(tmp_path: Path) -> None:
    model = onnx_models.mlp()
    executable = plan(model, MESH, args={"batch": 8}, in_specs=SPECS, target="cpu")
    executable.save(tmp_path / "in.mgx")
    executable.save(tmp_path / "beside.mgx", weights={})
    np.testing.assert_allclose(mg.load(tmp_path / "in.mgx")(X), reference_result(model), rtol=1e-5, atol=1e-5)
    module = mg.load(tmp_path / "beside.mgx")
    with pytest.raises(mg.MeshgenError, match="MG0601"):
        module(X)
    np.testing.assert_allclose(module(X, **executable.signature.weights), reference_result(model), rtol=1e-5, atol=1e-5)


def test_command_line_compiles_runs_and_explains_onnx(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, out, weights_path = (str(tmp_path / name) for name in ("mlp.onnx", "mlp.mgx", "mlp.safetensors"))
    save(onnx_models.mlp(), path)
    command = ["compile", path, "-o", out, "--mesh", "dp=2,tp=2", "--shape", "batch=8", "--spec", "x=dp", "--spec", "*.up.weight=tp", "--target", "cpu"]  # fmt: skip
    assert main(command) == 0
    assert main(["run", out, "--device", "reference"]) == 0
    assert main([*command, "--weights", weights_path]) == 0
    with mg.load(out).session(weights=weights_path) as session:
        np.testing.assert_allclose(session(X), reference_result(onnx_models.mlp_of(path)), rtol=1e-5, atol=1e-5)
    assert main(["explain", path, "--mesh", "dp=2,tp=2", "--shape", "batch=8", "--spec", "*.down.weight=_,tp"]) == 0
    assert "layers.0/down/Gemm" in capsys.readouterr().out


def test_small_integer_initializers_are_folded() -> None:
    b = Builder()
    y = b("Mul", b("Reshape", "x", b.ints(0, 4, -1)), b.number(2.0))
    module, _ = read(b.model([("x", "f32", [2, 8])], [(y, "f32")]), {"d": 2})
    assert [str(value.type) for value in module.graph.inputs] == ["f32[2,8]"]


def test_locations_are_node_names_or_python_lines() -> None:
    model = onnx_models.mlp(8)
    node = model.graph.node[0]
    helper.set_model_props(model, {})
    node.metadata_props.add(
        key="pkg.torch.onnx.stack_trace", value='File "net.py", line 7, in forward\n  return self.up(x)'
    )
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'layers.0', 'layers.0.up', 'linear']")
    module, _ = read(model, {"d": 2})
    locations = {node.op: node.loc for node in module.graph.nodes if node.loc}
    dots = [candidate.loc for candidate in module.graph.nodes if candidate.op == "dot_general"]
    assert [(str(loc), loc and loc.scope) for loc in dots] == [
        ("net.py:7", "layers/0/up"),
        ("mlp", "layers.0/down/Gemm"),
    ]
    assert locations["maximum"].scope == "layers.0/act/Relu"


def test_models_are_entries_of_one_module(tmp_path: Path) -> None:
    several = {"small": onnx_models.mlp(4), "large": onnx_models.mlp(8)}
    mg.compile(several, {"dp": 2}, target="cpu").save(tmp_path / "both.mgx")
    for name, rows in (("small", 4), ("large", 8)):
        result = mg.load(tmp_path / "both.mgx", entry=name)(X[:rows])
        np.testing.assert_allclose(result, reference_result(several[name])[:rows] if rows == 8 else onnx_models.reference(several[name], X[:4])[0], rtol=1e-4, atol=1e-5)  # fmt: skip


# Sizes ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("args", [{"batch": 8}, {"x": (8, 32)}, {"x": (8, None)}, ["f32[8,32]"], [(8, 32)]], ids=str)
def test_symbolic_dims_are_bound_by_args(args: Any) -> None:
    module, _ = read(onnx_models.mlp(), {"d": 2}, args=args)
    assert str(module.graph.outputs[0].type) == "f32[8,32]"


def test_symbolic_dims_may_be_sums() -> None:
    b = Builder()
    y = b("Concat", "past", "x", axis=1)
    model = b.model([("past", "f32", [2, "past"]), ("x", "f32", [2, "new"]), ("mask", "f32", [2, "past + new + 1"])], [(b("Add", b("Pad", y, b.ints(0, 0, 0, 1)), "mask"), "f32")])  # fmt: skip
    module, _ = read(model, {"d": 2}, args={"past": (2, 6), "new": 1})
    assert [str(value.type) for value in module.graph.inputs] == ["f32[2,6]", "f32[2,1]", "f32[2,8]"]


def test_missing_or_wrong_size_is_rejected() -> None:
    assert "a size of 'x' is 32, but 31 was given" in error_text(onnx_models.mlp(), args={"x": (8, 31)})
    assert "unknown input 'y'" in error_text(onnx_models.mlp(), args={"y": 3})
    assert "rank 2" in error_text(onnx_models.mlp(), args={"x": (8,)})
    assert "non-negative integer" in error_text(onnx_models.mlp(), args={"batch": -1})
    assert "2 args were given" in error_text(onnx_models.mlp(), args=[(8, 32), (8, 32)])
    both = onnx_models.bert()
    assert "a size of 'mask' is 4, but 5 was given" in error_text(both, args={"ids": (4, 8), "mask": (5, 8)})


# External data -------------------------------------------------------------------------------------------------------


def external(folder: Path, **changed: str) -> str:
    """Write a model with its weights in a separate file, and return the model's path. `changed` has other values for
    external-data entries of the first weight.
    """
    path = save(
        onnx_models.mlp(8), folder / "mlp.onnx", save_as_external_data=True, location="mlp.data", size_threshold=64
    )
    model = onnx.load(path, load_external_data=False)
    entries = {entry.key: entry for entry in model.graph.initializer[0].external_data}
    for key, value in changed.items():
        entries[key].value = value
    Path(path).write_bytes(model.SerializeToString())
    return path


def test_external_weights_are_memory_mapped(tmp_path: Path) -> None:
    path = external(tmp_path)
    executable = plan(path, MESH, in_specs=SPECS, target="cpu")
    assert isinstance(executable.signature.weights["layers.0.up.weight"], np.memmap)
    np.testing.assert_allclose(executable(X), reference_result(onnx.load(path)), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "entry, text",
    [
        ({"location": "../secret"}, "outside of the model's folder"),
        ({"location": "/etc/passwd"}, "outside of the model's folder"),
        ({"location": "missing.data"}, "cannot be read"),
        ({"offset": "99999999"}, "the model assigns it"),
        ({"offset": "-8"}, "the model assigns it"),
        ({"length": "8"}, "the model assigns it"),
        ({"length": "many"}, "cannot be read"),
    ],
    ids=str,
)
def test_invalid_external_data_is_rejected(entry: dict[str, str], text: str, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(bytes(1 << 16))
    (tmp_path / "model").mkdir()
    message = error_text(external(tmp_path / "model", **entry))
    assert "MG0101" in message and text in message and "layers.0.up.weight" in message


def test_symlink_out_of_model_folder_is_rejected(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    path = external(tmp_path / "model")
    (tmp_path / "model" / "mlp.data").rename(tmp_path / "elsewhere")
    (tmp_path / "model" / "mlp.data").symlink_to(tmp_path / "elsewhere")
    assert "outside of the model's folder" in error_text(path)


def test_external_data_of_model_in_memory_is_rejected(tmp_path: Path) -> None:
    assert "give the model's path" in error_text(onnx.load(external(tmp_path), load_external_data=False))


# Errors --------------------------------------------------------------------------------------------------------------


def test_all_unsupported_onnx_operators_are_listed() -> None:
    b = Builder()
    odd = [b("Fancy", "x", domain="my.ops") for _ in range(5)]
    y = b("Add", b("RandomNormalLike", odd[0]), b("NonMaxSuppression", odd[1], odd[2]))
    text = error_text(b.model([("x", "f32", [2, 8])], [(y, "f32")]))
    assert "my.ops.Fancy is not supported: 5 nodes, '/Fancy', '/Fancy_1', '/Fancy_2' and 2 more" in text
    assert "draws new random numbers" in text and "data-dependent size" in text and text.count("MG0103") == 3


def test_errors_of_all_onnx_nodes_are_listed() -> None:
    b = Builder("/a")
    first = b("Reshape", "x", "shape")
    b.scope = "/b"
    second = b("MatMul", "x", "x")
    b.scope = "/c"
    y = b("Add", first, second)
    text = error_text(b.model([("x", "f32", [2, 8]), ("shape", "i64", [2])], [(y, "f32")]))
    assert "Reshape '/a/Reshape'" in text and "MatMul '/b/MatMul'" in text and "/c" not in text


def test_non_tensor_input_is_rejected() -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    node = helper.make_node("SequenceLength", ["s"], ["n"])
    graph = helper.make_graph([node], "g", [helper.make_value_info("s", kind)], [helper.make_tensor_value_info("n", TensorProto.INT64, [])])  # fmt: skip
    assert "input 's' is not a tensor" in error_text(helper.make_model(graph))


@pytest.mark.parametrize(
    "content", [b"", b"not a model", b"\x08\x07\x12", bytes(100)], ids=["empty", "text", "cut", "zeros"]
)
def test_file_that_is_no_onnx_model_is_rejected(
    content: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd.onnx").write_bytes(content)
    assert main(["check", str(tmp_path / "odd.onnx")]) == 1
    assert "MG01" in capsys.readouterr().err


def test_entry_option_for_onnx_model_is_rejected(tmp_path: Path) -> None:
    path = save(onnx_models.mlp(8), tmp_path / "mlp.onnx")
    for program in (path, onnx.load(path)):
        assert "entry 'main' is not a function" in error_text(program, entry="main")


def test_missing_onnx_file_is_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "none.onnx")]) == 2
    assert "MG0002" in capsys.readouterr().err


def test_damaged_onnx_file_is_read_or_rejected_with_code(tmp_path: Path) -> None:
    """Change random bytes of a model file."""
    content, generator = bytearray(onnx_models.resnet(size=8).SerializeToString()), random.Random(0)
    path, verdicts = tmp_path / "damaged.onnx", set[bool]()
    for _ in range(60):
        damaged = bytearray(content)
        for _ in range(generator.choice((1, 4))):
            damaged[generator.randrange(len(damaged))] = generator.randrange(256)
        path.write_bytes(damaged[: generator.choice((len(damaged), len(damaged) // 2))])
        try:
            read(path, {"d": 2}, args={"batch": 2})
            verdicts.add(True)
        except mg.MeshgenError as error:
            assert error.diagnostics
            verdicts.add(False)
    assert verdicts == {True, False}


# Functions and versions ----------------------------------------------------------------------------------------------


def test_model_local_functions_are_inlined() -> None:
    body = [helper.make_node("Mul", ["a", "a"], ["b"]), helper.make_node("Add", ["b", "a"], ["c"])]
    function = helper.make_function("my.ops", "SquarePlus", ["a"], ["c"], body, [helper.make_opsetid("", 18)])
    node = helper.make_node("SquarePlus", ["x"], ["y"], domain="my.ops")
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 32]) for name in "xy"]
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my.ops", 1)]
    graph = helper.make_graph([node], "g", infos[:1], infos[1:])
    module, _ = read(helper.make_model(graph, functions=[function], opset_imports=opsets), {"d": 2})
    np.testing.assert_allclose(evaluate(module.graph, [X])[0], X * X + X, rtol=1e-6)


@pytest.mark.parametrize("version", [9, 11, 13, 17, 21])
def test_softmax_before_opset_13_spans_all_later_dims(version: int) -> None:
    node = helper.make_node("Softmax", ["x"], ["y"], axis=1)
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 3, 4]) for name in "xy"]
    model = helper.make_model(
        helper.make_graph([node], "g", infos[:1], infos[1:]), opset_imports=[helper.make_opsetid("", version)]
    )
    x = X[:2, :12].reshape(2, 3, 4)
    rows = np.exp(x).reshape(2, 12) if version < 13 else np.exp(x)
    module, _ = read(model, {"d": 2})
    np.testing.assert_allclose(
        evaluate(module.graph, [x])[0], (rows / rows.sum(1, keepdims=True)).reshape(2, 3, 4), rtol=1e-5
    )


def test_initializer_that_is_also_input_keeps_its_value() -> None:
    model = onnx_models.mlp(8)
    first = model.graph.initializer[0]
    model.graph.input.append(helper.make_tensor_value_info(first.name, first.data_type, first.dims))
    executable = plan(model, {"dp": 2}, target="cpu")
    np.testing.assert_allclose(executable(X), reference_result(onnx_models.without_input(model)), rtol=1e-5, atol=1e-5)


def test_external_int4_weight_is_dequantized(tmp_path: Path) -> None:
    import ml_dtypes

    weight = (np.arange(24) % 15 - 7).reshape(4, 6).astype(ml_dtypes.int4)
    b = Builder()
    y = b("MatMul", "x", b("DequantizeLinear", b.array("w", weight), b.array("scale", np.full((), 0.5, np.float32))))
    path = save(b.model([("x", "f32", [2, 4])], [(y, "f32")], opset=21), tmp_path / "q.onnx", save_as_external_data=True, location="q.data", size_threshold=0)  # fmt: skip
    module, signature = read(path, {"d": 2})
    operands = [
        X[:2, :4] if value.name == "x" else np.asarray(signature.weights[value.name]) for value in module.graph.inputs
    ]
    np.testing.assert_allclose(
        evaluate(module.graph, operands)[0], X[:2, :4] @ (weight.astype(np.float32) / 2), rtol=1e-5
    )


def test_names_invalid_in_mlir_are_preserved(tmp_path: Path) -> None:
    w = numpy_helper.from_array(np.eye(32, dtype=np.float32), "onnx::MatMul_12")
    node = helper.make_node("MatMul", ["input.1:0", w.name], ["y"])
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [8, 32]) for name in ("input.1:0", "y")]
    model = helper.make_model(helper.make_graph([node], "a graph/of mine", infos[:1], infos[1:], [w]))
    executable = plan(
        model, {"dp": 2}, in_specs={"onnx::MatMul_*": mg.P("dp"), "input.1:0": mg.P(None, "dp")}, target="cpu"
    )
    executable.save(tmp_path / "m.mgx")
    np.testing.assert_allclose(mg.load(tmp_path / "m.mgx")(X), X, rtol=1e-5)
