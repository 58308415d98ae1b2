"""MLIR as a program: text, file and stdin, inlining of private functions, and several entry functions."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest

import meshgen as mg
from meshgen.cli import main
from meshgen.errors import ProgramError, UsageError
from meshgen.frontend.mlir import read_mlir
from meshgen.ops.evaluate.evaluator import evaluate

TEXT = """module @jit_f {
  func.func public @main(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
    %a = call @outer(%x) : (tensor<3xf32>) -> tensor<3xf32>
    %b = call @outer(%a) : (tensor<3xf32>) -> tensor<3xf32>
    return %a, %b : tensor<3xf32>, tensor<3xf32>
  }
  func.func private @outer(%arg0: tensor<3xf32>) -> tensor<3xf32> {
    %0 = call @inner(%arg0, %arg0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %h = stablehlo.negate %0 : tensor<3xf32>
    %1 = call @inner(%h, %arg0) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    return %1 : tensor<3xf32>
  }
  func.func private @inner(%arg0: tensor<3xf32>, %arg1: tensor<3xf32>) -> tensor<3xf32> {
    %0 = stablehlo.subtract %arg0, %arg1 : tensor<3xf32>
    %1 = stablehlo.add %0, %arg0 : tensor<3xf32>
    return %1 : tensor<3xf32>
  }
}
"""


def test_nested_and_repeated_calls_are_inlined() -> None:
    module = read_mlir(TEXT)
    assert module.name == "jit_f" and module.stage == "import"
    assert [node.op for node in module.graph.nodes] == ["subtract", "add", "negate", "subtract", "add"] * 2
    values = list(module.graph.values())
    assert len(set(map(id, values))) == len(values)
    x = np.array([1, 2, -3], np.float32)
    inner = lambda a, b: a - b + a  # noqa: E731
    outer = lambda a: inner(-inner(a, a), a)  # noqa: E731
    a, b = evaluate(module.graph, [x])
    np.testing.assert_array_equal(a, outer(x))
    np.testing.assert_array_equal(b, outer(outer(x)))


def test_inlined_results_keep_names_of_caller() -> None:
    graph = read_mlir(TEXT).graph
    assert [value.name for value in graph.outputs] == ["a", "b"]
    assert str(graph.nodes[2].loc) == "<text>:9" and graph.nodes[2].result.name == "h"


def test_read_mlir_accepts_file_and_stdin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.mlir"
    path.write_text(TEXT)
    assert str(read_mlir(path).graph.nodes[0].loc) == f"{path}:14"
    assert str(read_mlir(str(path)).graph.nodes[0].loc) == f"{path}:14"
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT))
    assert str(read_mlir("-").graph.nodes[0].loc) == "-:14"


def test_only_public_function_is_the_program() -> None:
    module = read_mlir(TEXT.replace("@main", "@forward"))
    assert module.graph.name == "forward"


def test_called_public_function_is_inlined() -> None:
    graph = read_mlir(TEXT.replace("@main", "@forward").replace("func private @inner", "func @inner")).graph
    assert graph.name == "forward" and len(graph.nodes) == 10
    with pytest.raises(ProgramError, match="2 public functions"):
        read_mlir("func.func @f() {\n  return\n}\nfunc.func @g() {\n  return\n}")


SEVERAL = """func.func @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = call @g(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @g(%a: tensor<4xf32>) -> tensor<4xf32> {
  %0 = stablehlo.negate %a : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @h(%a: tensor<4xf32>) -> tensor<4xf32> {
  return %a : tensor<4xf32>
}
"""


@pytest.mark.parametrize(("entry", "ops"), [("f", ["negate"]), ("@g", ["negate"]), ("h", [])])
def test_entry_function_is_chosen_by_name(entry: str, ops: list[str]) -> None:
    for text in (SEVERAL, SEVERAL.replace("@h", "@main") if entry != "h" else SEVERAL):
        graph = read_mlir(text, entry=entry).graph
        assert graph.name == entry.removeprefix("@") and [node.op for node in graph.nodes] == ops


def test_missing_entry_choice_is_rejected_with_names() -> None:
    with pytest.raises(ProgramError) as caught:
        read_mlir(SEVERAL)
    (fault,) = caught.value.diagnostics
    assert fault.code == "MG0104" and "2 public functions (@f, @h)" in fault.message and "--entry f" in fault.hint
    with pytest.raises(UsageError, match="unknown function '@k'") as error:
        read_mlir(SEVERAL + "func.func private @declared(tensor<4xf32>) -> tensor<4xf32>", entry="k")
    assert error.value.diagnostics[0].hint == "known functions are @f, @g, @h"


def test_compile_lower_and_check_accept_entry(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mesh, a = {"x": 2}, np.arange(4, dtype=np.float32)
    np.testing.assert_array_equal(mg.compile(SEVERAL, mesh, target="cpu", arguments="global", entry="g")(a), -a)
    assert mg.lower(SEVERAL, mesh, stage="propagate", entry="h").graph.name == "h"
    with pytest.raises(UsageError, match="is not a function of MLIR text"):
        mg.compile(lambda x: x, mesh, args=["f32[4]"], entry="f")
    path = tmp_path / "several.mlir"
    path.write_text(SEVERAL)
    assert main(["check", str(path), "--mesh", "x=2"]) == 1
    assert main(["check", str(path), "--mesh", "x=2", "--entry", "g"]) == 0
    assert main(["check", str(path), "--mesh", "x=2", "--entry", "k"]) == 2
    capsys.readouterr()


def test_unreadable_mlir_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="MG0002"):
        read_mlir(tmp_path / "missing.mlir")
    binary = tmp_path / "m.mlirbc"
    binary.write_bytes(b"ML\xefR\xff\xfe")
    with pytest.raises(ProgramError, match="bytecode"):
        read_mlir(binary)
    with pytest.raises(ProgramError, match="MG0102"):
        read_mlir(" ")


def test_public_functions_on_different_grids_become_entries(tmp_path: Path) -> None:
    """Some of the functions are per-device programs. The mesh of an entry must not depend on the functions of other
    entries.
    """
    rows, both = (
        "grid_axes = [0] : tensor<4x6xf32> -> tensor<4x6xf32>",
        "grid_axes = [0, 1] : tensor<4x2xf32> -> tensor<4x2xf32>",
    )
    text = f"""
shard.grid @one(shape = 2) {{axis_names = ["x"]}}
shard.grid @two(shape = 2x3) {{axis_names = ["a", "b"]}}
func.func @f(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {{
  %y = shard.all_reduce %x on @one {rows}
  return %y : tensor<4x6xf32>
}}
func.func private @summed(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {{
  %y = shard.all_reduce %x on @two {both}
  return %y : tensor<4x2xf32>
}}
func.func @g(%x: tensor<4x2xf32>) -> tensor<4x2xf32> {{
  %y = func.call @summed(%x) : (tensor<4x2xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}}
"""
    executable = mg.compile(text, target="cpu")
    assert {name: str(executable[name].mesh) for name in executable} == {"f": "Mesh(x=2)", "g": "Mesh(a=2, b=3)"}
    executable.save(tmp_path / "both.mgx")
    x = np.arange(48, dtype=np.float32).reshape(24, 2)
    summed = mg.load(tmp_path / "both.mgx", entry="g")(x)
    np.testing.assert_array_equal(summed, np.tile(x.reshape(6, 4, 2).sum(0), (6, 1)))
