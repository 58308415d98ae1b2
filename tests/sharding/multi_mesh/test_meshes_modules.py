"""Saved modules and commands for programs on several meshes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import meshgen as mg
from meshgen.api import read
from meshgen.cli import main
from meshgen.errors import MeshgenError, ModuleError, UsageError
from meshgen.mlir.text import print_text
from meshgen.pipeline import STAGES
from meshgen.runtime.module_file.manifest import PARTS_FORMAT
from tests.sharding.multi_mesh.meshes_programs import (
    MESHES,
    TYPES,
    stages_of,
    traced,
    two_stages,
)


def test_module_on_several_meshes_is_saved_loaded_and_run(tmp_path: Path) -> None:
    specs = {"x": mg.P("dp", mesh="a")}
    exe = mg.compile(two_stages, MESHES, args=TYPES, in_specs=specs, target="cpu")
    rng = np.random.default_rng(0)
    x, w0, w1 = (rng.standard_normal(shape).astype("f4") for shape in ((10, 7), (7, 6), (6, 5)))
    path = tmp_path / "p.mgx"
    exe.save(path, weights={"w1": w1})
    loaded = mg.load(path)
    assert [b.name for b in loaded.inputs] == ["x", "w0"] and loaded.ranks == 7
    expected = np.tanh(x @ w0) @ w1
    for result in (exe(x, w0, w1), loaded(x, w0), loaded.run({"w0": w0, "x": x}, "interpret")[0]):
        np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5)
    assert set(loaded.stages) == {*STAGES, "import"}
    second_path = tmp_path / "q.mgx"
    mg.compile(two_stages, MESHES, args=TYPES, in_specs=specs, target="cpu").save(second_path, weights={"w1": w1})
    assert path.read_bytes() == second_path.read_bytes()


def test_commands_accept_programs_on_several_meshes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "p.mlir", tmp_path / "p.mgx"
    file.write_text(print_text(traced()))
    assert main(["check", str(file), "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["check"]["ok"] and record["mesh"] == {"a": {"dp": 2, "tp": 2}, "b": {"x": 3}}
    assert [row["mesh"] for row in record["collectives"]] == ["a", "b"] and len(record["parts"]) == 2
    assert main(["explain", str(file)]) == 0
    text = capsys.readouterr().out
    assert "transfer_send" in text and "@b" in text
    assert main(["compile", str(file), "--target", "cpu", "-o", str(out)]) == 0
    assert main(["inspect", str(out), "--schedule"]) == 0
    assert "transfer_recv from @a" in capsys.readouterr().out
    assert main(["inspect", str(out), "--json"]) == 0
    collective_rows = [row for part in json.loads(capsys.readouterr().out)["parts"] for row in part["collectives"]]
    assert [row["number"] for row in collective_rows] == [0, 1]
    for row in collective_rows:  # `explain` accepts the same collective indices.
        assert main(["explain", str(file), "--collective", str(row["number"])]) == 0
        assert f"#{row['number']} {row['kind']}" in capsys.readouterr().out
    assert main(["run", str(out), "--expect", str(file)]) == 0
    assert main(["diff", str(out), str(out)]) == 0
    assert main(["opt", str(file), "--passes", "propagate,materialize"]) == 0
    assert "meshgen.transfer_send" in capsys.readouterr().out


def test_damaged_module_on_several_meshes_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "p.mgx"
    mg.compile(two_stages, MESHES, args=TYPES, in_specs={"x": mg.P("dp", mesh="a")}, target="cpu").save(path)
    content = path.read_bytes()
    assert f'"format":{PARTS_FORMAT}'.encode() in content
    for byte in range(0, len(content), 997):
        broken = bytearray(content)
        broken[byte] ^= 1
        path.write_bytes(bytes(broken))
        with pytest.raises(MeshgenError):
            mg.load(path)
    path.write_bytes(content[: len(content) // 2])
    with pytest.raises(ModuleError):
        mg.load(path)


OPEN_SIZES = """
shard.grid @a(shape = ?) {axis_names = ["x"]}
shard.grid @b(shape = 2x?) {axis_names = ["y", "z"]}
func.func @main(%x: tensor<8x4xf32> {meshgen.sharding = #meshgen.split<@a, [["x"], []]>}) -> (tensor<8x4xf32> {meshgen.sharding = #meshgen.split<@b, [["y", "z"], []]>}) {
  %h = stablehlo.tanh %x : tensor<8x4xf32>
  return %h : tensor<8x4xf32>
}
"""


def test_mesh_option_sets_sizes_of_named_mesh(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "open.mlir"
    file.write_text(OPEN_SIZES)
    assert main(["check", str(file), "--mesh", "a:x=2", "--mesh", "b:z=3", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["mesh"] == {"a": {"x": 2}, "b": {"y": 2, "z": 3}}
    assert main(["check", str(file), "--mesh", "b:z=3", "--mesh", "a:x=3"]) == 0
    for mesh_options, code, text in (
        (["a:x=2"], 1, "give for example --mesh b:z=4"),
        (["x=2"], 2, "name it: --mesh a:x=2"),
        (["a:x=2", "c:z=3"], 2, "unknown mesh '@c'"),
        (["a:x=2", "z=3"], 2, "write NAME:z=3"),
        (["a:x=2", "a:x=3"], 2, "--mesh gives @a 2 times"),
    ):
        assert main(["check", str(file), *(word for mesh in mesh_options for word in ("--mesh", mesh))]) == code
        assert text in capsys.readouterr().err


def test_check_command_accepts_function_on_several_meshes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "stages_on_meshes.py").write_text("def run(x, w0, w1):\n    return (x @ w0) @ w1\n")
    monkeypatch.chdir(tmp_path)
    words = (
        "check stages_on_meshes:run --mesh a:dp=2,tp=2 --mesh b:x=3 --spec x=dp@a --spec w0=_,tp --out-spec result=x@b"
    )
    assert main([*words.split(), *(word for kind in TYPES for word in ("--arg", kind))]) == 0


def test_mesh_sizes_of_split_program_are_fixed() -> None:
    parts = stages_of(traced(), "propagate")["propagate"]
    assert read(print_text(parts), {"a": {"dp": 2, "tp": 2}})[0].parts
    with pytest.raises(UsageError, match=r"@b is Mesh\(x=3\) in the program's parts, not Mesh\(x=2\)"):
        read(print_text(parts), {"b": {"x": 2}})


def test_results_on_several_meshes_have_distinct_names(tmp_path: Path) -> None:
    def program(x: Any, y: Any) -> Any:
        h = mg.annotate(x, mg.P("dp", mesh="a")) * 2.0
        return mg.annotate(h, mg.P("x", mesh="b")) + y, h - 1.0, mg.annotate(mg.exp(h), mg.P(mesh="b"))

    exe = mg.compile(program, MESHES, args=["f32[6]", "f32[6]"], target="cpu")
    path, out = tmp_path / "p.mgx", tmp_path / "y.npz"
    exe.save(path, weights={"y": np.ones(6, "f4")})
    module = mg.load(path)
    assert [b.name for b in module.outputs] == ["result0", "result1", "result2"]
    np.save(tmp_path / "x.npy", np.arange(6, dtype="f4"))
    assert main(["run", str(path), "--input", f"x=@{tmp_path / 'x.npy'}", "--output", str(out)]) == 0
    saved_results = np.load(out)
    np.testing.assert_allclose(saved_results["result0"], np.arange(6) * 2.0 + 1.0)
    np.testing.assert_allclose(saved_results["result1"], np.arange(6) * 2.0 - 1.0)
    assert main(["run", str(path), "--input", f"x=@{tmp_path / 'x.npy'}", "--expect", str(out)]) == 0


def test_unused_mesh_has_no_program() -> None:
    def program(x: Any) -> Any:
        return mg.tanh(mg.annotate(x, mg.P("dp", mesh="a")))

    exe = mg.compile(program, MESHES, args=["f32[4]"], target="cpu")
    assert len(exe.parts) == 1 and exe.mesh.name == "a"
    three = mg.compile(
        two_stages, {**MESHES, "c": {"z": 2}}, args=TYPES, in_specs={"x": mg.P("dp", mesh="a")}, target="cpu"
    )
    assert [part.mesh.name for part in three.parts] == ["a", "b"]
